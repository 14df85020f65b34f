// Joint completions of a picture: its marginals, samples, and the most probable one, all of the same hidden part.

const COLUMNS = 4

export function render({model, el}) {
  const H = model.height_px, W = model.width_px, N = 3 * H * W
  const root = node("div", {class: "qt completions", tabindex: -1}), note = node("p", {class: "note", text: model.note})
  let look = 0
  const looks = model.looks.map((text, i) => node("button", {type: "button", text, "aria-pressed": String(i === look),
    onclick: () => { look = i; looks.forEach((each, k) => each.setAttribute("aria-pressed", String(k === i))); draw() }}))
  const {head} = makeHead(model, model.label, ...looks)
  const figures = model.titles.map((title) => {
    const canvas = node("canvas", {width: W, height: H, role: "img", "aria-label": title})
    return {canvas, figure: node("figure", {}, node("h3", {text: title}), canvas)}
  })
  const pictures = node("div", {class: "pictures"}, ...figures.map((each) => each.figure))
  root.append(head, pictures, note)

  function layout() {
    const painter = W * fit(H, W, {fixed: model.scale}), beside = 216 + 16 + 20 + 16 + 16 + painter + GAP
    const columns = isNarrow() ? 2 : COLUMNS // two headings fit next to each other on a phone
    const scale = fit(H, W, {fixed: model.scale, columns, beside, rows: 2, above: 300, abreast: columns})
    pictures.style.gridTemplateColumns = `repeat(${columns}, ${W * scale}px)`
    for (const {canvas} of figures) { canvas.style.width = `${W * scale}px`; canvas.style.height = `${H * scale}px` }
    root.style.width = `${columns * (W * scale + GAP) - GAP}px`
  }
  function draw() { // all pictures of one look come after all of another
    const bytes = bytesOf(model.pictures), count = bytes.length / N, shown = Math.min(look, Math.floor(count / figures.length) - 1)
    figures.forEach(({canvas}, i) => {
      const context = canvas.getContext("2d"), image = context.createImageData(W, H), at = (Math.max(shown, 0) * figures.length + i) * N
      context.clearRect(0, 0, W, H)
      if (at + N > bytes.length) return
      for (let k = 0; k < H * W; k++) image.data.set([bytes[at + 3 * k], bytes[at + 3 * k + 1], bytes[at + 3 * k + 2], 255], 4 * k)
      context.putImageData(image, 0, 0)
    })
  }
  const dim = () => root.classList.toggle("stale", model.stale)
  model.on("pictures", draw); model.on("stale", dim)
  const resized = () => { layout(); dark() }
  window.addEventListener("resize", resized)
  model.on("remove", () => window.removeEventListener("resize", resized))
  const dark = () => root.classList.toggle("dark", isDark(el))
  watchTheme(model, dark)
  layout(); draw(); dim(); dark()
  return root
}
