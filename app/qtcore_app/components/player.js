// The maps of one or two runs, layer by layer, with curves below.

const LABELS = [["contour", "CONTOUR", [214, 39, 40]], ["in", "IN", [185, 217, 242]], ["out", "OUT", [253, 246, 195]]]
const NARROWEST = 180 // pixels that a map has for its heading, and its share of the controls
const COVER = [143, 163, 176, 255] // of hidden pixels, as in the painter
const LABEL_LINES = {contour: "#d62728", in: "#4a90c8", out: "#b59a00"} // the same hues, dark enough for a thin line

export function render({model, el}) {
  let data = parse(model.frames), scale = 1, hover = null, shape = ""
  let pixel = Array.isArray(model.pixel) && model.pixel.length === 2 ? model.pixel : null
  const root = node("div", {class: "qt player", tabindex: -1})
  const maps = node("div", {class: "maps", tabindex: 0, role: "application", "aria-label": "Maps: arrow keys choose the pixel to look at"}), charts = node("div", {class: "charts"}), readout = node("div", {class: "readout", role: "status"})
  const deck = makeDeck(model, () => data, draw, (layer) => flashes(data, layer, data, layer + 1, coloured()),
    button("image", "Save this layer as PNG", () => want("png")),
    node("button", {type: "button", text: "GIF", title: "Save all layers as GIF", "aria-label": "Save all layers as GIF", "data-name": "gif", onclick: () => want("gif")}))
  const strip = node("div", {class: "strip", role: "group", "aria-label": "some of the layers"}), badge = node("span", {class: "badge", role: "status"})
  const changes = node("canvas"), amplified = node("small")
  const changed = node("figure", {class: "changed", title: "What changed since the layer before, amplified by the factor below"}, changes, amplified)
  root.append(maps, node("div", {class: "film"}, strip, changed, badge), deck.controls, charts, readout)
  let pictures = [], panels = [], chartWidth = 220

  const views = () => model.views.filter((view) => data && view.channel in data.index)
  const coloured = () => [...new Set(views().flatMap((view) => ["labels", "clones"].includes(view.map) ? ["contour", "in"] : [view.channel]))]
  const dark = () => root.classList.toggle("dark", isDark(el))
  const value = (run, layer, name, i) => valueAt(data, run, layer, name, i)

  function build() { // the frame: only when its parts change
    const shown = views(), wanted = JSON.stringify([shown, data.runs.map((run) => run.label), data.height, data.width, model.charts])
    const two = data.runs.length > 1 // then both rows of maps should fit on the screen, with the controls above them
    const narrow = isNarrow() && !(model.scale > 0), room = roomInNarrow()
    const abreast = narrow ? Math.max(2, Math.min(shown.length, Math.floor((room + GAP) / (NARROWEST + GAP)))) : shown.length
    scale = fit(data.height, data.width, {fixed: model.scale, columns: model.columns, abreast, ...(two ? {rows: 2, above: 330} : {})})
    root.classList.toggle("two", two || narrow)
    const w = data.width * scale, h = data.height * scale
    if (wanted !== shape) {
      shape = wanted
      pictures = []; maps.replaceChildren()
      for (const [r, run] of data.runs.entries()) {
        if (two) maps.append(node("h3", {class: "run", text: run.label}))
        maps.append(...shown.map((view) => map(r, view, two ? "" : view.note)))
      }
      panels = [...model.charts, {inspect: true}].map(panel)
      charts.replaceChildren(...panels.map((each) => each.block))
    }
    const column = narrow ? Math.floor((room + GAP) / abreast) - GAP : Math.max(w, NARROWEST)
    const full = narrow ? room : Math.max(shown.length, 3) * (column + GAP) - GAP
    const side = narrow ? Math.max(1, Math.min(panels.length, Math.floor((room + GAP) / (NARROWEST + 80 + GAP)))) : panels.length // charts
    maps.style.gridTemplateColumns = `repeat(${abreast}, ${column}px)`
    root.style.width = `${full}px`
    chartWidth = Math.floor((full - GAP * (side - 1)) / side)
    charts.style.gridTemplateColumns = `repeat(${side}, ${chartWidth}px)`
    for (const {base, mark, picture, figure} of pictures) {
      figure.lastChild.style.width = `${w}px`
      for (const element of [base, mark, picture]) { element.style.width = `${w}px`; element.style.height = `${h}px` }
      mark.width = w; mark.height = h
    }
  }

  function map(r, view, note) {
    const base = node("canvas", {width: data.width, height: data.height, "data-map": view.channel, "data-run": r}), mark = node("canvas", {class: "mark"})
    const picture = node("div", {class: "picture"}, base, mark), heading = node("h3", {text: view.title})
    if (note) heading.append(node("small", {text: ` · ${note}`}))
    heading.title = heading.textContent
    const figure = node("figure", {}, heading, picture, legend(view))
    const at = (event) => {
      const box = picture.getBoundingClientRect()
      return [Math.floor((event.clientY - box.top) * data.height / box.height), Math.floor((event.clientX - box.left) * data.width / box.width)]
    }
    picture.addEventListener("click", (event) => choosePixel(at(event)))
    picture.addEventListener("pointermove", (event) => { hover = at(event); marks() })
    picture.addEventListener("pointerleave", () => { hover = null; marks() })
    pictures.push({r, view, base, mark, picture, figure})
    return figure
  }

  function legend(view) {
    const box = node("div", {class: "legend"})
    if (view.map === "labels") {
      box.append(node("div", {class: "keys"}, ...LABELS.map(([, name, c]) => node("span", {}, node("i", {style: `background:rgb(${c})`}), name))))
      return box
    }
    const bar = node("canvas", {width: 256, height: 1}), context = bar.getContext("2d"), pixels = context.createImageData(256, 1)
    const table = model.tables[view.map === "clones" ? "wheel" : view.map]
    for (let i = 0; i < 256; i++) pixels.data.set([table[3 * i], table[3 * i + 1], table[3 * i + 2], 255], 4 * i)
    context.putImageData(pixels, 0, 0)
    const channel = data.channels[data.index[view.channel]]
    const short = (number) => pretty(number).replace(/\.0+$/, "")
    const labels = view.map === "clones" ? ["→", "↓", "←", "↑", "→"] : [short(channel.low), view.unit, short(channel.high)]
    box.append(bar, node("div", {class: "ends"}, ...labels.map((text) => node("span", {text}))))
    return box
  }

  function paint({r, view, base}, at = deck.cursor) {
    const run = data.runs[r], pixels = data.height * data.width, context = base.getContext("2d")
    const image = context.createImageData(data.width, data.height), out = image.data
    const layer = Math.min(at, run.count - 1)
    const channel = (name) => { const at = (layer * data.channels.length + data.index[name]) * pixels; return run.bytes.subarray(at, at + pixels) }
    if (view.map === "labels" || view.map === "clones") {
      const contour = channel("contour"), inside = channel("in"), clone = channel("clone")
      for (let i = 0; i < pixels; i++) {
        const c = contour[i] / 255, n = inside[i] / 255, o = Math.max(0, 1 - c - n)
        if (view.map === "labels") for (let k = 0; k < 3; k++) out[4 * i + k] = c * LABELS[0][2][k] + n * LABELS[1][2][k] + o * LABELS[2][2][k]
        else if (c > n && c > o) {
          const colour = data.clones?.[clone[i]] ?? [150, 150, 150]
          for (let k = 0; k < 3; k++) out[4 * i + k] = colour[k]
        } else out.fill(236, 4 * i, 4 * i + 3)
        out[4 * i + 3] = 255
      }
    } else {
      const table = model.tables[view.map], source = channel(view.channel)
      for (let i = 0; i < pixels; i++) {
        const at = 3 * source[i]
        out[4 * i] = table[at]; out[4 * i + 1] = table[at + 1]; out[4 * i + 2] = table[at + 2]; out[4 * i + 3] = 255
      }
    }
    if (layer === 0 && view.channel === views()[0].channel) for (const i of data.hidden ?? []) out.set(COVER, 4 * i) // nothing is known yet
    context.putImageData(image, 0, 0)
  }
  function hatch({view, mark}) { // the same pixels, as in the painter
    if (deck.cursor !== 0 || view.channel !== views()[0].channel) return
    const context = mark.getContext("2d")
    context.strokeStyle = "#33424d"; context.lineWidth = Math.max(1, scale / 9)
    context.beginPath()
    for (const i of data.hidden ?? []) {
      const x = i % data.width, y = Math.floor(i / data.width)
      context.moveTo(x * scale, (y + 1) * scale); context.lineTo((x + 1) * scale, y * scale)
    }
    context.stroke()
  }

  const inside = (place) => place && place.every(Number.isInteger) && place[0] >= 0 && place[1] >= 0 && place[0] < data.height && place[1] < data.width
  function marks() {
    for (const each of pictures) {
      const {mark} = each, context = mark.getContext("2d")
      context.clearRect(0, 0, mark.width, mark.height)
      hatch(each)
      for (const [place, colour] of [[pixel, "#d55e00"], [hover, "#009e73"]]) {
        if (!inside(place)) continue
        context.lineWidth = 3; context.strokeStyle = "#fff"
        context.strokeRect(place[1] * scale - 1, place[0] * scale - 1, scale + 2, scale + 2)
        context.lineWidth = 1.6; context.strokeStyle = colour
        context.strokeRect(place[1] * scale - 1, place[0] * scale - 1, scale + 2, scale + 2)
      }
    }
    const place = inside(hover) ? hover : inside(pixel) ? pixel : null
    readout.textContent = place ? describe(place) : "Click a pixel to see its marginal over the layers."
  }
  function truthAt(i) {
    if (!data.truthBytes) return null
    if (model.inspector === "labels") return data.truthBytes[i]
    const channel = data.channels[data.index.mean]
    return channel.low + data.truthBytes[i] / 255 * (channel.high - channel.low)
  }
  function describe(place) {
    const i = place[0] * data.width + place[1], parts = [`pixel (row ${place[0]}, column ${place[1]}), layer ${deck.cursor}`], truth = truthAt(i)
    for (const run of data.runs) {
      const name = data.runs.length > 1 ? `${run.label}: ` : ""
      if (model.inspector === "labels") {
        const c = value(run, deck.cursor, "contour", i), n = value(run, deck.cursor, "in", i)
        parts.push(`${name}CONTOUR ${pretty(c)}, IN ${pretty(n)}, OUT ${pretty(Math.max(0, 1 - c - n))}, clone ${Math.round(value(run, deck.cursor, "clone", i))}`)
      } else if (model.inspector === "band") parts.push(`${name}${pretty(value(run, deck.cursor, "mean", i))} ± ${pretty(value(run, deck.cursor, "deviation", i))}`)
      else parts.push(`${name}p = ${pretty(value(run, deck.cursor, "mean", i))}`)
    }
    if (truth !== null) parts.push(`truth ${model.inspector === "labels" ? ["CONTOUR", "OUT", "IN"][truth] : pretty(truth)}`)
    return parts.join(" · ")
  }
  function choosePixel(place) {
    if (!inside(place)) return
    pixel = place; model.pixel = place; marks(); drawCharts()
  }

  function drawCharts() { for (const each of panels) each.spec.inspect ? inspect(each) : curve(each, data, deck, chartWidth) }
  function inspect({heading, body}) {
    if (!inside(pixel)) { heading.textContent = "One pixel"; nothing(body, "Click a pixel in a map."); return }
    const i = pixel[0] * data.width + pixel[1], truth = truthAt(i), all = (run, name) => Array.from({length: run.count}, (_, k) => value(run, k, name, i))
    heading.title = `The marginal of the pixel in row ${pixel[0]}, column ${pixel[1]} after each layer`
    const known = truth === null || model.inspector === "labels" ? "" : ` · truth ${pretty(truth)}`
    heading.replaceChildren(`Pixel (${pixel[0]}, ${pixel[1]})`, node("small", {text: known}))
    if (model.inspector === "labels") {
      const series = data.runs.flatMap((run, r) => {
        const c = all(run, "contour"), n = all(run, "in"), o = c.map((each, k) => Math.max(0, 1 - each - n[k]))
        return [["contour", c], ["in", n], ["out", o]].map(([key, values]) => ({label: r ? "" : key.toUpperCase(), colour: LABEL_LINES[key], values, dashed: r > 0,
          now: truth !== null && ["contour", "out", "in"][truth] === key ? "✓" : ""}))
      })
      const note = data.runs.length > 1 ? `dashed: ${data.runs[1].label}` : ""
      if (truth !== null) heading.title += "; ✓ is the truth"
      plot(body, series, {title: heading.title, low: 0, high: 1, total: deck.total(), cursor: deck.cursor, width: chartWidth, names: true, note, move: deck.move})
      return
    }
    const scaleOf = data.channels[data.index.mean]
    const series = data.runs.map((run, r) => ({label: run.label, colour: SERIES[r], values: all(run, "mean"),
      band: model.inspector === "band" ? all(run, "deviation") : null}))
    plot(body, series, {title: heading.title, low: scaleOf.low, high: scaleOf.high, total: deck.total(), cursor: deck.cursor, width: chartWidth, names: data.runs.length > 1, move: deck.move,
      baseline: truth === null ? null : {label: "", value: truth}})
  }
  // Small pictures of some layers of the first run, closer together where more happens: a click goes there.
  let film = []
  function makeStrip() {
    const total = deck.total(), layers = milestones(total)
    if (JSON.stringify(film.map((each) => each.layer)) !== JSON.stringify(layers) || film[0]?.base.width !== data.width || film[0]?.base.height !== data.height) {
      film = layers.map((layer) => {
        const base = node("canvas", {width: data.width, height: data.height})
        const frame = node("button", {type: "button", title: `Go to layer ${layer}`, "aria-label": `layer ${layer}`, "data-layer": layer, onclick: () => deck.move(layer)}, base, node("small", {text: layer}))
        return {layer, base, frame}
      })
      strip.replaceChildren(...film.map((each) => each.frame))
    }
    const view = views()[0]
    for (const {layer, base, frame} of film) {
      frame.disabled = layer >= data.runs[0].count
      if (!frame.disabled) paint({r: 0, view, base}, layer)
    }
  }
  function markStrip() {
    const now = film.filter((each) => each.layer <= deck.cursor).at(-1)
    for (const each of film) each.frame.setAttribute("aria-current", String(each === now))
    badge.replaceChildren(...data.runs.map((run) => {
      const state = restOf(run)
      return node("span", {class: state.kind, text: data.runs.length > 1 ? `${run.label}: ${state.text}` : state.text, title: REST[state.kind]})
    }))
    badge.dataset.state = restOf(data.runs[0]).kind
  }

  // How much the first map of the first run changed since the layer before, amplified by a power of two so that it can be seen.
  function showChange() {
    const run = data.runs[0], pixels = data.height * data.width, layer = Math.min(deck.cursor, run.count - 1), view = views()[0]
    const names = view.map === "labels" ? ["contour", "in"] : [view.channel], change = new Uint8Array(pixels)
    const at = (k, name) => run.bytes.subarray((k * data.channels.length + data.index[name]) * pixels, (k * data.channels.length + data.index[name] + 1) * pixels)
    if (layer > 0) for (const name of names) {
      const now = at(layer, name), before = at(layer - 1, name)
      for (let i = 0; i < pixels; i++) change[i] = Math.max(change[i], Math.abs(now[i] - before[i]))
    }
    const largest = change.reduce((a, b) => Math.max(a, b), 0), factor = largest ? Math.min(64, 2 ** Math.floor(Math.log2(255 / largest))) : 1
    changes.width = data.width; changes.height = data.height
    const context = changes.getContext("2d"), image = context.createImageData(data.width, data.height)
    for (let i = 0; i < pixels; i++) image.data.set([213, 94, 0, Math.min(255, factor * change[i])], 4 * i)
    context.putImageData(image, 0, 0)
    amplified.textContent = largest ? `change ×${factor}` : "no change"
    changed.dataset.largest = String(largest)
  }

  function draw() {
    if (!data) return
    build()
    for (const picture of pictures) paint(picture)
    deck.show(root)
    markStrip(); showChange(); marks(); drawCharts()
  }

  function want(kind) { model.wanted = [kind, deck.cursor, (model.wanted[2] ?? 0) + 1] }
  function save() {
    const [kind, layer] = model.wanted, file = new Blob([bytesOf(model.file).slice(4)], {type: `image/${kind}`})
    const address = URL.createObjectURL(file), link = node("a", {href: address, download: kind === "gif" ? "layers.gif" : `layer-${layer}.png`})
    link.click()
    setTimeout(() => URL.revokeObjectURL(address), 10000)
  }

  listenForKeys(model, root, model.whole_page, deck.keys)
  maps.addEventListener("click", () => root.focus({preventScroll: true})) // then the arrows are for the layers
  maps.addEventListener("keydown", (event) => {
    const step = STEPS[event.key], [row, column] = inside(pixel) ? pixel : [0, 0]
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return
    choosePixel([Math.max(0, Math.min(data.height - 1, row + step[1])), Math.max(0, Math.min(data.width - 1, column + step[0]))])
    event.preventDefault()
  })

  // Layers that arrive. While the last one is followed, the old answer stays until the new one is there, unless what arrives
  // looks much the same or takes long; and from one picture to one that is quite different it takes a third of a second.
  let began = {seq: -1, at: 0}, flashed = -CALM, later = null
  function arrive() {
    const next = parse(model.frames), now = performance.now()
    clearTimeout(later)
    if (!next || (data && next.seq < data.seq)) return
    if (next.seq !== began.seq) began = {seq: next.seq, at: now}
    if (data && deck.follows) {
      const count = Math.max(...next.runs.map((run) => run.count)), complete = next.runs.every((run) => run.count > run.total)
      if (flashes(data, deck.cursor, next, count - 1, coloured())) {
        if (!complete && now - began.at < CALM) return
        if (now - flashed < CALM) { later = setTimeout(arrive, flashed + CALM - now); return }
        flashed = now
      }
    }
    data = next
    deck.arrived()
    draw(); makeStrip(); markStrip()
    window.dispatchEvent(new CustomEvent("qtcore:frames", {detail: {seq: data.seq, count: deck.last() + 1, done: deck.last() >= deck.total(), at: performance.now()}}))
  }
  const perform = () => { if (model.play && data) { model.play = false; deck.play() } }
  model.on("play", () => setTimeout(perform, 0)) // its frames come with it
  model.on("frames", arrive); model.on("remove", () => clearTimeout(later))
  model.on("pixel", () => { pixel = model.pixel.length === 2 ? model.pixel : null; if (data) { marks(); drawCharts() } })
  model.on("views", () => { draw(); if (data) makeStrip() }); model.on("charts", draw)
  model.on("file", save)
  const resized = () => { draw(); dark() }
  window.addEventListener("resize", resized)
  model.on("remove", () => window.removeEventListener("resize", resized))
  watchTheme(model, dark)
  draw(); dark()
  if (data) { makeStrip(); markStrip() }
  setTimeout(perform, 300) // once the page is there
  return root
}
