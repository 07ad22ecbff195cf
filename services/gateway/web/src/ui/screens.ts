// What is not the inbox: fetched when it is wanted.
import { BatchSheet, FormCard, QuestionCard } from "../cards/wanted";
import { later } from "./later";

export const Help = later(() => import("./Help").then((m) => m.Help));
export const History = later(() => import("../inbox/History").then((m) => m.History));
export const One = later(() => import("../inbox/One").then((m) => m.One));
export const Rules = later(() => import("../rules/Rules").then((m) => m.default));
export const SessionView = later(() => import("../session/SessionView").then((m) => m.SessionView));
export const Settings = later(() => import("./Settings").then((m) => m.Settings));
export const StartForm = later(() => import("../session/StartForm").then((m) => m.StartForm));

/** Fetches them in advance, so that they are there without the server, too. */
export function preload(): Promise<unknown> {
  return Promise.all([BatchSheet, FormCard, Help, History, One, QuestionCard, Rules, SessionView, Settings, StartForm].map((s) => s.preload()));
}
