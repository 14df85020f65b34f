export function render({model, el}) {
  const root = node("div", {class: "qt choices"}), heading = node("h3"), row = node("div", {class: "row"})
  root.append(heading, row)
  function draw() {
    heading.textContent = model.heading; heading.hidden = !model.heading
    row.replaceChildren(...model.labels.map((label, i) => node("button", {
      type: "button", text: label, "aria-pressed": String(i === model.selected),
      onclick: () => { model.clicks = [i, model.clicks[1] + 1] },
    })))
  }
  for (const name of ["labels", "selected", "heading"]) model.on(name, draw)
  const dark = () => root.classList.toggle("dark", isDark(el))
  watchTheme(model, dark)
  draw(); dark()
  return root
}
