// Browsers start no workers on pages that are opened from a folder, and search needs one. There it runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.documentElement.appendChild(frame)
      const inner = frame.contentWindow
      inner.postMessage = data => {
        const event = new MessageEvent("message", { data })
        this.onmessage?.(event)
        this.dispatchEvent(event)
      }
      inner.importScripts = (...urls) => Promise.all(urls.map(one => load(inner, one)))
      this.frame = frame
      this.ready = load(inner, new URL(url, location.href).href)
      this.ready.catch(() => this.dispatchEvent(new Event("error")))
    }
    postMessage(data) {
      this.ready.then(() => {
        const inner = this.frame.contentWindow
        inner.dispatchEvent(new inner.MessageEvent("message", { data }))
      })
    }
    terminate() {
      this.frame.remove()
    }
  }
}

function load(inner, url) {
  return new Promise((resolve, reject) => {
    const script = inner.document.createElement("script")
    script.src = url
    script.onload = resolve
    script.onerror = reject
    inner.document.head.appendChild(script)
  })
}
