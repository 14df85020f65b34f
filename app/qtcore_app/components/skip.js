// A link past the choices to what a page is about, for those who use the keyboard: seen while it has the focus.

export function render() {
  const go = (event) => { event.preventDefault(); window.dispatchEvent(new CustomEvent("qtcore:skip")) }
  return node("a", {class: "skip", href: "#content", text: "Skip to the content", onclick: go})
}
