// A file from the user's machine. Too large ones are refused here already: a large message would close the connection.

export function render({model, el}) {
  const root = node("div", {class: "qt choices"}), input = node("input", {type: "file", accept: model.accept, hidden: true, "aria-label": model.label})
  const choose = node("button", {type: "button", text: model.label, onclick: () => input.click()}), problem = node("div", {class: "problem", role: "alert"})
  root.append(node("div", {class: "row"}, choose), problem, input)
  const say = (text) => { problem.textContent = text; problem.hidden = !text }
  input.addEventListener("change", async () => {
    const file = input.files[0]
    input.value = ""
    if (!file) return
    if (file.size > model.max_bytes) { say(`The file is ${(file.size / 2 ** 20).toFixed(1)} MB; pictures up to ${Math.floor(model.max_bytes / 2 ** 20)} MB are read.`); return }
    say("") // also what Python knows nothing of, such as a file that was too large
    model.problem = "" // here and in Python: the same problem may come again
    const bytes = new Uint8Array(await file.arrayBuffer()), message = new Uint8Array(4 + bytes.length)
    new DataView(message.buffer).setUint32(0, Math.floor(Math.random() * 2 ** 32), true) // the same file twice is two uploads
    message.set(bytes, 4)
    model.file = message.buffer
  })
  model.on("problem", () => say(model.problem))
  const dark = () => root.classList.toggle("dark", isDark(el))
  watchTheme(model, dark)
  say(model.problem); dark()
  return root
}
