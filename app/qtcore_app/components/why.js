// Why one pixel is believed to be what it is: a click on a map asks about another one.

const BESIDE = 216 + 16 + 20 + 16 + 16 // the choices on the left and the spaces
const NARROWEST = 150 // pixels of a map, so that its heading has room

export function render({model, el}) {
  const H = model.height_px, W = model.width_px, N = 3 * H * W
  const root = node("div", {class: "qt why", tabindex: -1})
  const {head} = makeHead(model, "Explain again"), claim = node("div", {class: "claim", role: "status"})
  const maps = model.titles.map((title) => {
    const base = node("canvas", {width: W, height: H}), mark = node("canvas", {class: "mark"})
    const picture = node("div", {class: "picture", tabindex: 0, role: "application", "aria-label": `${title}: arrow keys choose the pixel, Enter explains it`}, base, mark)
    picture.addEventListener("click", (event) => {
      const box = picture.getBoundingClientRect()
      ask([Math.floor((event.clientY - box.top) * H / box.height), Math.floor((event.clientX - box.left) * W / box.width)])
    })
    picture.addEventListener("keydown", (event) => {
      const step = STEPS[event.key]
      if (event.ctrlKey || event.metaKey || event.altKey || !(step || event.key === "Enter")) return
      event.preventDefault(); event.stopPropagation()
      if (step) choose([model.pixel[0] + step[1], model.pixel[1] + step[0]])
      else ask(model.pixel)
    })
    return {base, mark, picture, figure: node("figure", {}, node("h3", {text: title, title}), picture)}
  })
  const legend = node("div", {class: "legend"}), evidence = node("ol"), units = node("div", {class: "units"})
  maps[1].figure.append(legend)
  const activity = node("canvas", {role: "img", "aria-label": "probabilities of the hidden units, layer by layer"}), layers = node("figcaption")
  const atlas = node("canvas", {role: "img", "aria-label": model.learned}), all = node("details", {}, node("summary", {text: model.learned}), atlas)
  const hidden = node("figure", {class: "hidden"}, node("h3", {text: "Hidden units, layer by layer"}), activity, layers)
  root.append(head, claim,
    node("div", {class: "row"}, ...maps.map((each) => each.figure), node("div", {class: "list"}, node("h3", {text: "Evidence that moved it most"}), evidence)),
    node("div", {class: "row"}, node("div", {class: "list"}, node("h3", {text: "Messages that arrive at it, and what each did"}), units), hidden),
    all)

  const usable = (place) => place.length === 2 && place[0] >= 0 && place[1] >= 0 && place[0] < H && place[1] < W
  function choose(place) { if (usable(place)) { model.pixel = place; marks() } }
  function ask(place) { if (usable(place)) { choose(place); model.asks += 1 } }

  let scale = 1
  function layout() {
    const painter = W * fit(H, W), wide = isNarrow() ? roomInNarrow() : window.innerWidth - BESIDE - painter - GAP
    root.style.width = `${wide}px`
    const room = isNarrow() ? (wide - GAP) / 2 : (wide - 2 * GAP) / 3.4
    scale = model.scale > 0 ? model.scale : Math.max(2, Math.min(Math.floor(room / W), Math.floor(Math.max(220, window.innerHeight * 0.33) / H)))
    for (const {base, mark, picture, figure} of maps) {
      figure.style.width = `${Math.max(W * scale, isNarrow() ? 0 : NARROWEST)}px`
      mark.width = W * scale; mark.height = H * scale
      for (const element of [base, mark, picture]) { element.style.width = `${W * scale}px`; element.style.height = `${H * scale}px` }
    }
    marks()
  }
  function put(canvas, bytes, at, height, width) {
    canvas.width = width; canvas.height = height
    if (at + 3 * height * width > bytes.length) return
    const context = canvas.getContext("2d"), image = context.createImageData(width, height)
    for (let k = 0; k < height * width; k++) image.data.set([bytes[at + 3 * k], bytes[at + 3 * k + 1], bytes[at + 3 * k + 2], 255], 4 * k)
    context.putImageData(image, 0, 0)
  }
  function marks() {
    const places = [[model.pixel, "#d55e00"], ...(model.facts.evidence ?? []).slice(0, 3).map((each) => [each.place, "#111"])]
    maps.forEach(({mark}, m) => {
      const context = mark.getContext("2d")
      context.clearRect(0, 0, mark.width, mark.height)
      for (const [place, colour] of m ? places : places.slice(0, 1)) {
        if (place.length !== 2) continue
        context.lineWidth = 3; context.strokeStyle = "#fff"; context.strokeRect(place[1] * scale - 1, place[0] * scale - 1, scale + 2, scale + 2)
        context.lineWidth = 1.6; context.strokeStyle = colour; context.strokeRect(place[1] * scale - 1, place[0] * scale - 1, scale + 2, scale + 2)
      }
    })
  }
  function draw() {
    const facts = model.facts, pictures = bytesOf(model.pictures), filters = bytesOf(model.filters)
    maps.forEach(({base}, i) => put(base, pictures, i * N, H, W))
    claim.textContent = facts.claim ? `Pixel (row ${facts.pixel[0]}, column ${facts.pixel[1]}): ${facts.claim}` : ""
    legend.textContent = facts.evidence?.length ? `blue −${facts.scale} … brown +${facts.scale} (${facts.unit}); squares: the first three` : ""
    const known = facts.evidence ?? [], messages = facts.messages ?? []
    evidence.replaceChildren(...known.map((each) => node("li", {}, node("b", {text: each.moved}), ` ${each.text} `, node("small", {text: `${each.bits} bits`}))))
    if (!known.length) evidence.replaceChildren(node("li", {class: "none", text: model.share < 1 ? "…" : "None moved it."}))
    units.replaceChildren(...messages.map((each, i) => {
      const figure = node("figure", {}, node("b", {text: each.moved}), node("span", {text: each.name}), node("small", {text: each.text}))
      if (filters.length) {
        const canvas = node("canvas", {role: "img", "aria-label": `filter of ${each.name}`})
        put(canvas, filters, i * N, H, W)
        figure.prepend(canvas)
      }
      return figure
    }))
    drawActivity(facts)
    drawAtlas()
    root.dataset.pixel = (facts.pixel ?? []).join("-"); root.dataset.pieces = String(known.length)
    marks()
  }
  function drawActivity({units: count = 0, layers: depth = 0}) { // a column for each layer, the units that end up on at the top
    const bytes = bytesOf(model.activity)
    hidden.hidden = !count || bytes.length < count * depth
    if (hidden.hidden) return
    const last = bytes.subarray((depth - 1) * count), order = [...last.keys()].sort((a, b) => last[b] - last[a])
    activity.width = depth; activity.height = count
    const context = activity.getContext("2d"), image = context.createImageData(depth, count)
    for (let y = 0; y < count; y++) for (let x = 0; x < depth; x++) { const v = bytes[x * count + order[y]]; image.data.set([v, v, v, 255], 4 * (y * depth + x)) }
    context.putImageData(image, 0, 0)
    layers.textContent = `layer 0 … ${depth - 1}; ${count} units, white: on`
  }
  function drawAtlas() {
    const bytes = bytesOf(model.atlas)
    all.hidden = bytes.length < 4
    if (all.hidden) return
    const view = new DataView(bytes.buffer, bytes.byteOffset)
    put(atlas, bytes, 4, view.getUint16(0, true), view.getUint16(2, true))
    atlas.style.width = `${atlas.width * Math.max(1, Math.min(3, Math.floor(620 / atlas.width)))}px`
  }

  const dim = () => root.classList.toggle("stale", model.stale)
  let planned = false
  const plan = () => { if (!planned) requestAnimationFrame(() => { planned = false; draw() }); planned = true } // the parts of an answer come one by one
  for (const name of ["facts", "pictures", "filters", "activity", "atlas"]) model.on(name, plan)
  model.on("stale", dim); model.on("pixel", marks)
  const resized = () => { layout(); dark() }
  window.addEventListener("resize", resized)
  model.on("remove", () => window.removeEventListener("resize", resized))
  const dark = () => root.classList.toggle("dark", isDark(el))
  watchTheme(model, dark)
  layout(); draw(); dim(); dark()
  return root
}
