// The graph as SVG: discs are beliefs, rings what is exact, arrows messages. Elements are made once per graph and then updated.

const NAMESPACE = "http://www.w3.org/2000/svg"
function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(NAMESPACE, tag)
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value)
    else made.setAttribute(key, value)
  }
  made.append(...children)
  return made
}

// From −1 (blue) over nothing to +1 (orange): told apart by colour-blind eyes, and in grey by their signs in numbers.
const STOPS = {
  light: [[24, 88, 164], [116, 174, 219], [226, 226, 226], [251, 179, 90], [196, 90, 0]],
  dark: [[86, 170, 255], [52, 112, 178], [70, 76, 82], [186, 118, 34], [255, 165, 60]],
}
function diverging(value, isNight) {
  const stops = isNight ? STOPS.dark : STOPS.light, at = (Math.max(-1, Math.min(1, value)) + 1) * 2, i = Math.min(3, Math.floor(at))
  return stops[i].map((c, k) => Math.round(c + (stops[i + 1][k] - c) * (at - i)))
}
const rgb = (colour) => `rgb(${colour.join(",")})`
const readable = ([r, g, b]) => 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#111" : "#fff"

const fixed = (value, digits = 2) => Math.abs(value) >= 1000 ? (value > 0 ? "∞" : "−∞") : value.toFixed(digits).replace("-", "−").replace(/^−(0\.?0*)$/, "$1")
const signed = (value, digits = 2) => (Number(value.toFixed(digits)) > 0 ? "+" : "") + fixed(value, digits)
const STRONG = 4 // log-odds at which colour and width end
const WIDTH = 640, HEIGHT = 490
const label = (name) => name[0] + "₀₁₂₃₄₅₆₇₈₉"[Number(name.slice(1))]
const short = (name) => name[0] === "x" ? name.slice(1) : name // as an index

function makeGraph(act) {
  const root = svg("svg", {class: "graph", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": "the graph"})
  let made = "", nodes = [], arrows = [], pills = [], R = 34

  const enter = (action) => (event) => { if (event.key === "Enter") { event.preventDefault(); event.stopPropagation(); action(event) } }
  function clickable(attributes, action, ...children) {
    return svg("g", {role: "button", tabindex: 0, ...attributes, onclick: action, onkeydown: enter(action)}, ...children)
  }

  function build(data) {
    R = data.names.length > 6 ? 34 : 40
    const place = data.places.map(([x, y]) => [R + 16 + x * (WIDTH - 2 * R - 50), R + 8 + y * (HEIGHT - 2 * R - 24)])
    const lines = svg("g"), heads = svg("g"), marks = svg("g"), discs = svg("g")
    const centre = [0, 1].map((k) => place.reduce((sum, each) => sum + each[k], 0) / place.length)
    nodes = []; arrows = []; pills = []
    data.edges.forEach(([i, j], e) => {
      const [a, b] = [place[i], place[j]], length = Math.hypot(b[0] - a[0], b[1] - a[1])
      const u = [(b[0] - a[0]) / length, (b[1] - a[1]) / length]
      lines.append(svg("line", {class: "edge", x1: a[0], y1: a[1], x2: b[0], y2: b[1]}))
      for (const [d, from, to, v] of [[2 * e, a, b, u], [2 * e + 1, b, a, [-u[0], -u[1]]]]) {
        const normal = [-v[1], v[0]], off = 11
        const start = [from[0] + v[0] * (R + 8) + normal[0] * off, from[1] + v[1] * (R + 8) + normal[1] * off]
        const end = [to[0] - v[0] * (R + 8) + normal[0] * off, to[1] - v[1] * (R + 8) + normal[1] * off]
        const shape = svg("polygon", {class: "arrow"}), number = svg("text", {class: "value"})
        const hit = svg("line", {class: "hit", x1: start[0], y1: start[1], x2: end[0], y2: end[1]})
        const title = svg("title")
        const group = clickable({class: "message", "data-message": d}, () => act("send", d), title, hit, shape, number)
        heads.append(group)
        arrows.push({group, shape, number, title, start, end, v, normal, length: Math.hypot(end[0] - start[0], end[1] - start[1])})
      }
      const share = data.visible < data.names.length ? 0.26 : 0.5 // near the visible ones, or those of an RBM would hide each other
      const at = [a[0] + share * (b[0] - a[0]), a[1] + share * (b[1] - a[1])], text = svg("text", {x: at[0], y: at[1] + 5, "text-anchor": "middle"})
      const pill = clickable({class: "pill", "data-edge": e}, () => act("select", 1, e),
        svg("title"), svg("rect", {x: at[0] - 23, y: at[1] - 11, width: 46, height: 22, rx: 11}), text)
      marks.append(pill); pills.push({pill, text, at})
    })
    place.forEach(([x, y], i) => {
      const title = svg("title"), ring = svg("rect", {class: "ring", x: x - R, y: y - R, width: 2 * R, height: 2 * R})
      const disc = svg("rect", {class: "disc", x: x - R + 8, y: y - R + 8, width: 2 * R - 16, height: 2 * R - 16})
      const name = svg("text", {class: "name", x, y: y - 5, "text-anchor": "middle"}), value = svg("text", {class: "p", x, y: y + 15, "text-anchor": "middle"})
      const away = [x - centre[0], y - centre[1]], side = Math.abs(away[0]) < 20 ? (Math.abs(away[1]) < 20 ? 1 : 0) : Math.sign(away[0]) // labels outside the graph
      const bias = svg("text", {class: "bias", x: x + side * R * 0.72, y: away[1] < -20 ? y - R - (side ? 2 : 7) : y + R + (side ? 12 : 18), "text-anchor": ["end", "middle", "start"][side + 1]})
      const group = clickable({class: `node${i >= data.visible ? " hidden" : ""}`, "data-node": i}, () => act("node", i), title, ring, disc, name, value)
      bias.addEventListener("click", () => act("select", 0, i))
      discs.append(group, bias)
      nodes.push({group, ring, disc, name, value, bias, title})
    })
    settle(place)
    root.replaceChildren(lines, heads, marks, discs)
  }

  // Each number beside its arrow, at the first place where it hides nothing.
  function settle(place) {
    const taken = [...place.map(([x, y]) => [x - R, y - R, x + R, y + R]), ...pills.map(({at: [x, y]}) => [x - 23, y - 11, x + 23, y + 11])]
    const overlaps = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
    const along = ({start, end}) => Array.from({length: 11}, (_, k) => [0, 1].map((c) => start[c] + k / 10 * (end[c] - start[c])))
    const shafts = arrows.map((arrow) => along(arrow).map(([x, y]) => [x - 5, y - 5, x + 5, y + 5]))
    for (const [d, {start, end, normal, number}] of arrows.entries()) {
      const anchor = Math.abs(normal[0]) < 0.5 ? "middle" : normal[0] > 0 ? "start" : "end", left = {start: 0, middle: -21, end: -42}[anchor]
      const options = [0.5, 0.38, 0.62, 0.28, 0.72, 0.18, 0.82].map((t) => {
        const x = start[0] + t * (end[0] - start[0]) + normal[0] * 16, y = start[1] + t * (end[1] - start[1]) + normal[1] * 17
        const box = [x + left, y - 9, x + left + 42, y + 9]
        const crossed = shafts.filter((shaft, other) => other >> 1 !== d >> 1 && shaft.some((b) => overlaps(box, b))).length
        return {x, y, box, hidden: crossed + 4 * taken.filter((b) => overlaps(box, b)).length}
      })
      const best = options.reduce((a, b) => b.hidden < a.hidden ? b : a)
      taken.push(best.box)
      for (const [key, value] of [["x", best.x], ["y", best.y + 5], ["text-anchor", anchor]]) number.setAttribute(key, value)
    }
  }

  function polygon({start, end, v, normal}, m) {
    const half = 1.2 + 5.8 * Math.min(Math.abs(m) / STRONG, 1), head = half + 5, neck = [end[0] - v[0] * 17, end[1] - v[1] * 17]
    const at = (p, k) => `${(p[0] + normal[0] * k).toFixed(1)},${(p[1] + normal[1] * k).toFixed(1)}`
    return [at(start, half), at(neck, half), at(neck, head), at(end, 0), at(neck, -head), at(neck, -half), at(start, -half)].join(" ")
  }

  function update(data, cursor, isNight) {
    const wanted = data.graph
    if (made !== wanted) { made = wanted; build(data) }
    const messages = data.messages[cursor], crowded = data.edges.length > 6, chosen = data.selected
    arrows.forEach((arrow, d) => {
      const m = messages[d], [i, j] = data.edges[d >> 1], [from, to] = d % 2 ? [j, i] : [i, j]
      const isChosen = chosen === `m${d}`, last = data.hand >= 0 && cursor > 0 && data.sent[cursor - 1] === d
      arrow.shape.setAttribute("points", polygon(arrow, m))
      arrow.shape.style.fill = rgb(diverging(m / STRONG * 1.2, isNight))
      arrow.group.classList.toggle("chosen", isChosen); arrow.group.classList.toggle("last", last)
      arrow.number.textContent = crowded && !isChosen && !last ? "" : signed(m)
      const words = `message from ${data.names[from]} to ${data.names[to]}: ${signed(m)}`
      arrow.title.textContent = `${words}. Click to send it now.`
      arrow.group.setAttribute("aria-label", `${words}; send it`)
      arrow.group.dataset.value = String(m)
    })
    pills.forEach(({pill, text}, e) => {
      const w = data.couplings[e], [i, j] = data.edges[e]
      text.textContent = signed(w)
      pill.classList.toggle("negative", w < 0); pill.classList.toggle("chosen", chosen === `e${e}` || (chosen[0] === "m" && data.edge === e))
      pill.firstChild.textContent = `coupling of ${data.names[i]} and ${data.names[j]}: ${signed(w)}. Click, then set it on the left.`
      pill.setAttribute("aria-label", pill.firstChild.textContent)
    })
    nodes.forEach(({group, ring, disc, name, value, bias, title}, i) => {
      const p = data.beliefs[cursor][i], q = data.exact[i], seen = data.evidence[i], fill = diverging(2 * p - 1, isNight)
      const known = seen >= 0
      ring.setAttribute("rx", known ? 9 : R); disc.setAttribute("rx", known ? 5 : R - 8)
      ring.style.fill = rgb(diverging(2 * q - 1, isNight)); disc.style.fill = rgb(fill)
      name.style.fill = value.style.fill = readable(fill)
      name.textContent = label(data.names[i]); value.textContent = known ? `= ${seen}` : fixed(p)
      bias.textContent = data.biases[i] === 0 && chosen !== `n${i}` ? "" : `b ${signed(data.biases[i])}`
      group.classList.toggle("known", known); group.classList.toggle("chosen", chosen === `n${i}`)
      const state = known ? `observed as ${seen}` : `belief ${fixed(p)}, exact ${fixed(q)}`
      title.textContent = `${data.names[i]}: ${state}.${i < data.visible ? ` Click: ${["observed as 1", "unobserved again", "observed as 0"][[-1, 0, 1].indexOf(seen)]}.` : " Hidden: never observed."}`
      Object.assign(group.dataset, {evidence: seen, belief: p})
    })
  }

  function pulse(d) { // a dot along the arrow that was just sent
    const arrow = arrows[d]
    if (!arrow || window.matchMedia("(prefers-reduced-motion: reduce)").matches) return
    const dot = svg("circle", {class: "dot", r: 7, cx: arrow.start[0], cy: arrow.start[1]})
    root.append(dot)
    const moved = dot.animate([{transform: "translate(0, 0)"}, {transform: `translate(${arrow.end[0] - arrow.start[0]}px, ${arrow.end[1] - arrow.start[1]}px)`}], {duration: 350, easing: "ease-in-out"})
    moved.onfinish = () => dot.remove()
  }
  return {root, update, pulse}
}
