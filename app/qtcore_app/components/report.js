// A page of HTML with figures of Bokeh. They are no part of the session's document, so they follow the theme by themselves.

async function unpacked(bytes) {
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json()
}

// The colours and the font of everything in a figure that is written or ruled.
function dress(document, dark) {
  const text = dark ? "#cccccc" : "#555555", rule = dark ? "#ffffff" : "#000000", font = "Roboto, system-ui, sans-serif"
  for (const model of document.all_models) {
    if (model.type.endsWith("Axis")) model.setv({
      axis_label_text_color: text, major_label_text_color: text, axis_label_text_font: font, major_label_text_font: font, axis_label_text_font_style: "normal",
      axis_line_color: text, major_tick_line_color: text, minor_tick_line_color: null})
    else if (model.type === "Grid") model.setv({grid_line_color: rule, grid_line_alpha: 0.12})
    else if (model.type === "Legend") model.setv({label_text_color: text, label_text_font: font, inactive_fill_color: null})
  }
}

export function render({model, el}) {
  const root = node("div", {class: "qt results"})
  root.innerHTML = model.html
  let drawn = null, gone = false
  async function draw() {
    if (drawn || !model.places || !Object.keys(model.places).length) return
    const json = await unpacked(bytesOf(model.figures)), roots = {}
    if (gone || drawn || !root.isConnected) return
    for (const [name, id] of Object.entries(model.places)) {
      roots[id] = root.querySelector(`[data-figure="${name}"]`)
      roots[id].dataset.id = id
    }
    drawn = Bokeh.embed.embed_items({figures: json}, [{docid: "figures", roots, root_ids: Object.keys(roots)}])
    await drawn
    if (!gone) { dark(); root.dataset.drawn = "true" }
  }
  const documents = (views) => new Set([...views].map((view) => view.model.document))
  function clear(views) {
    const left = documents(views) // before their views go
    for (const view of [...views]) view.remove()
    for (const each of left) Bokeh.documents.splice(Bokeh.documents.indexOf(each), 1)
  }
  async function dark() {
    root.classList.toggle("dark", isDark(el))
    if (drawn) for (const each of documents((await drawn)[0])) dress(each, isDark(el))
  }
  model.on("places", draw) // they arrive with the figures, after them
  model.on("remove", async () => { gone = true; if (drawn) clear((await drawn)[0]) })
  watchTheme(model, dark)
  requestAnimationFrame(draw); dark() // Bokeh draws in what is on the page
  return root
}
