// What of the inbox is fetched when something wants it, or in advance.
import { later } from "../ui/later";

export const BatchSheet = later(() => import("../inbox/Batch").then((m) => m.BatchSheet));
export const FormCard = later(() => import("./FormCard").then((m) => m.FormCard));
export const QuestionCard = later(() => import("./QuestionCard").then((m) => m.QuestionCard));
