// A file from the user's machine. Photographs are scaled down before they are sent: a large message would close the connection.

const LARGE = 2 ** 20, SIDE = 1200 // bytes that are worth looking into; pixels that are more than enough

async function smaller(file, most) { // as JPEG on white, if it is a picture and larger than needed; else as it is
  const image = file.size > LARGE ? await createImageBitmap(file).catch(() => null) : null
  const scale = image ? Math.min(1, SIDE / Math.max(image.width, image.height)) : 1
  if (!image || (scale === 1 && file.size <= most)) return file
  const [width, height] = [image.width, image.height].map((side) => Math.max(1, Math.round(side * scale)))
  const canvas = new OffscreenCanvas(width, height), context = canvas.getContext("2d")
  context.fillStyle = "#fff"; context.fillRect(0, 0, width, height)
  context.imageSmoothingQuality = "high"; context.drawImage(image, 0, 0, width, height)
  return canvas.convertToBlob({type: "image/jpeg", quality: 0.95})
}

export function render({model, el}) {
  const root = node("div", {class: "qt choices"}), input = node("input", {type: "file", accept: model.accept, hidden: true, "aria-label": model.label})
  const choose = node("button", {type: "button", text: model.label, onclick: () => input.click()}), problem = node("div", {class: "problem", role: "alert"})
  root.append(node("div", {class: "row"}, choose), problem, input)
  const say = (text) => { problem.textContent = text; problem.hidden = !text }
  input.addEventListener("change", async () => {
    const chosen = input.files[0]
    input.value = ""
    if (!chosen) return
    const file = await smaller(chosen, model.max_bytes)
    if (file.size > model.max_bytes) { say(`The file is ${(file.size / 2 ** 20).toFixed(1)} MB; ${model.what} up to ${Math.floor(model.max_bytes / 2 ** 20)} MB are read.`); return }
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
