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
  function press() { [...row.children].forEach((each, i) => each.setAttribute("aria-pressed", String(i === model.selected))) }
  for (const name of ["labels", "heading"]) model.on(name, draw)
  model.on("selected", press) // a button that is made anew while it is pressed would lose the click
  const dark = () => root.classList.toggle("dark", isDark(el))
  watchTheme(model, dark)
  draw(); dark()
  return root
}
