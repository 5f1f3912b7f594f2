/* vectors.js - reads protocol/vectors/, which the C tests read too. */
import { readFileSync } from "node:fs";

export function vectors(name) {
  const file = new URL(`../../protocol/vectors/${name}.json`, import.meta.url);
  return JSON.parse(readFileSync(file, "utf8"));
}
