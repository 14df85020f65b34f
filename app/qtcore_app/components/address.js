// The address bar holds the state of the page. A new state of a page takes the place of the old one; another page is a step in
// the browser's history, and going back or forward is told to the server, which shows what that address describes.
// The theme is kept in a cookie, which the server reads before it sends a page. And if the connection is lost, a sentence says so.

export function render({model, view}) {
  const lost = node("div", {class: "qt lost", role: "alert", hidden: true,
    text: "The connection to the server is lost: nothing you do here is answered. Reload the page to go on from this address."})
  const pageOf = (query) => new URLSearchParams(query).get("page") ?? model.first
  let shown = window.location.search
  const show = () => {
    if (!model.query) return
    shown = model.query
    const turned = pageOf(window.location.search) !== pageOf(model.query)
    window.history[turned ? "pushState" : "replaceState"](window.history.state, "", window.location.pathname + model.query + window.location.hash)
  }
  const visit = () => {
    if (window.location.search === shown) return // a step within the page
    shown = window.location.search
    model.visit = [(model.visit[0] ?? 0) + 1, shown]
  }
  view.model.document.on_event("connection_lost", () => { lost.hidden = false })
  view.model.document.on_event("client_reconnected", () => { lost.hidden = true })
  model.on("query", show)
  model.on("dark", () => { document.cookie = `${model.cookie}=${model.dark ? "dark" : "light"}; path=/; max-age=31536000; samesite=lax` })
  window.addEventListener("popstate", visit)
  model.on("remove", () => window.removeEventListener("popstate", visit))
  return lost
}
