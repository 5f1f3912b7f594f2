/* storage.js - sessionStorage that never throws: full or blocked, the page does without. */

/**
 * @param {string} key
 * @returns {string | null}
 */
export function recall(key) {
  try {
    return sessionStorage.getItem(key); /* The very name may throw. */
  } catch {
    return null;
  }
}

/**
 * @param {string} key
 * @param {string} value
 */
export function remember(key, value) {
  try {
    sessionStorage.removeItem(key); /* If what follows fails, nothing stale stays behind. */
    sessionStorage.setItem(key, value);
  } catch {
    /* It is forgotten with the page. */
  }
}
