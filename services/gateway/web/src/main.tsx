import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Gateway, takeLoginToken } from "@banksman/client";
import { createApp, login } from "./store/app";
import { Root } from "./ui/Root";
import { keepShell } from "./store/shell";
import { takePlace } from "./ui/route";
import { applyTheme, loadTheme } from "./ui/theme";
import "./ui/style.css";

async function main(): Promise<void> {
  applyTheme(loadTheme());
  let problem = await signIn();
  const app = createApp();
  app.drafts.dropOld(Date.now());
  const root = createRoot(document.getElementById("root")!);
  const draw = () => root.render(<StrictMode><Root app={app} loginProblem={problem} /></StrictMode>);
  draw();
  app.start();
  // A login link opened in a tab that already shows the page.
  window.addEventListener("hashchange", () => {
    if (!location.hash.startsWith("#login=")) return;
    void signIn().then((p) => {
      problem = p;
      if (p === "" || !login.get()) location.reload();
    });
  });
}

/** Exchanges the link's token, if there is one; returns what went wrong. */
async function signIn(): Promise<string> {
  const token = takeLoginToken();
  if (token === null) return "";
  try {
    login.save(await new Gateway({ token: () => null }).login(token));
    const place = takePlace(Date.now());
    if (place !== "") history.replaceState(null, "", place);
    return "";
  } catch (e) {
    // Whoever is signed in already stays so.
    return login.get() ? "" : `This link does not work any more: ${e instanceof Error ? e.message : String(e)}`;
  }
}

void main();
if (import.meta.env.PROD) keepShell();
