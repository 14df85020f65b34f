export function render({model, el}) {
  const root = node("div", {class: "qt gallery"}), heading = node("h3"), row = node("div", {class: "row"})
  root.append(heading, row)
  function draw() {
    heading.textContent = model.heading; heading.hidden = !model.heading
    const pixels = bytesOf(model.images), H = model.height_px, W = model.width_px
    row.replaceChildren(...model.names.map((name, i) => {
      const canvas = node("canvas", {width: W, height: H, style: `width:${W * model.zoom}px;height:${H * model.zoom}px`})
      const context = canvas.getContext("2d"), data = context.createImageData(W, H)
      for (let k = 0; k < H * W; k++) { const v = pixels[i * H * W + k]; data.data.set([v, v, v, 255], 4 * k) }
      context.putImageData(data, 0, 0)
      return node("button", {type: "button", title: name, "aria-label": name, "aria-pressed": String(i === model.selected),
        onclick: () => { model.clicks = [i, model.clicks[1] + 1] }}, canvas)
    }))
  }
  function press() { [...row.children].forEach((each, i) => each.setAttribute("aria-pressed", String(i === model.selected))) }
  for (const name of ["images", "names", "heading"]) model.on(name, draw)
  model.on("selected", press)
  const dark = () => root.classList.toggle("dark", isDark(el))
  watchTheme(model, dark)
  draw(); dark()
  return root
}
