// Browsers refuse workers to pages that are opened as files, and the search is a worker. This one runs its script in
// a hidden frame. (The theme's offline plugin would fetch such a script from elsewhere; it does not if a polyfill has
// this file's name.)
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = []; // messages from before the script has run
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.appendChild(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = this.inside.document.createElement("script");
      script.src = url;
      script.onload = () => this.waiting.splice(0).forEach((data) => this.deliver(data), (this.ready = true));
      script.onerror = () => this.dispatchEvent(new ErrorEvent("error", { message: `cannot load ${url}` }));
      this.inside.document.head.appendChild(script);
    }
    postMessage(data) {
      this.ready ? this.deliver(data) : this.waiting.push(data);
    }
    deliver(data) {
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
    }
  };
}
