document.querySelector("iframe")!.src = `/index.html${location.search}`;
export {};
