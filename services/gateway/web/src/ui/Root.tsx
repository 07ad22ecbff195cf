import type { App } from "../store/app";
import { useStore } from "../store/store";
import { AppContext, CardsContext } from "./context";
import { Login } from "./Login";
import { Shell } from "./Shell";

export function Root({ app, loginProblem }: { app: App; loginProblem: string }) {
  const state = useStore(app.store);
  if (state.conn.status === "signed_out") return <Login problem={loginProblem} />;
  return <AppContext value={app}><CardsContext value={app}><Shell /></CardsContext></AppContext>;
}
