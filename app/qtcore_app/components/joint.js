// Above joint answers: a button that asks for them, how far they are, and what went wrong. `model.asks` counts the requests,
// `model.share` is the part that is done (1: all of it, or nothing under way), `model.status` a sentence.
function makeHead(model, label, ...extras) {
  const ask = node("button", {type: "button", text: label, "data-name": "ask", onclick: () => { model.asks += 1 }})
  const bar = node("progress", {max: 1, "aria-label": "how far the answer is"}), status = node("span", {class: "status", role: "status"})
  const head = node("div", {class: "head"}, ask, ...extras, bar, status)
  function show() {
    bar.value = model.share; bar.style.visibility = model.share < 1 ? "visible" : "hidden"
    status.textContent = model.status
    head.dataset.busy = String(model.share < 1)
  }
  for (const name of ["share", "status"]) model.on(name, show)
  show()
  return {head, ask}
}
