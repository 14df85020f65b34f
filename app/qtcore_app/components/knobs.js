// A few sliders and a button; the numbers go out when a slider is let go.

export function render({model, el}) {
  const root = node("div", {class: "qt choices knobs"}), rows = node("div", {class: "sliders"})
  root.append(node("h3", {text: model.heading}), rows)
  model.knobs.forEach((knob, i) => {
    const show = () => { output.textContent = `${input.value}${knob.unit}` }
    const output = node("output"), input = node("input", {type: "range", min: knob.low, max: knob.high, value: model.values[i] ?? knob.value, "aria-label": knob.label})
    input.addEventListener("input", show)
    input.addEventListener("change", () => { model.values = [...rows.querySelectorAll("input")].map((each) => Number(each.value)) })
    rows.append(node("label", {}, node("span", {text: knob.label}), input, output))
    show()
  })
  if (model.action) root.append(node("div", {class: "row"}, node("button", {type: "button", text: model.action, onclick: () => { model.actions += 1 }})))
  const dark = () => root.classList.toggle("dark", isDark(el))
  watchTheme(model, dark); dark()
  return root
}
