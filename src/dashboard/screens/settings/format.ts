/** @module A browser in words, from its User-Agent. */

/** The first that is found counts: browsers also name those that they descend from. */
const BROWSERS: readonly (readonly [pattern: RegExp, word: string])[] = [
  [/\bEdgA?\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\bSamsungBrowser\//, 'Samsung Internet'],
  [/\b(Firefox|FxiOS)\//, 'Firefox'],
  [/\b(Chrome|CriOS|HeadlessChrome|Chromium)\//, 'Chrome'],
  [/\bSafari\//, 'Safari'],
  [/^curl\//, 'curl'],
]

const SYSTEMS: readonly (readonly [pattern: RegExp, word: string])[] = [
  [/\b(iPhone|iPad|iPod)\b/, 'iOS'],
  [/\bAndroid\b/, 'Android'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bWindows\b/, 'Windows'],
  [/\bMac OS X\b/, 'macOS'],
  [/\bLinux\b/, 'Linux'],
]

const findWord = (words: typeof BROWSERS, text: string): string | undefined =>
  words.find(([pattern]) => pattern.test(text))?.[1]

/** Such as "Firefox on Linux"; the text itself when nothing of it is known. */
export function toBrowserWords(userAgent: string | null): string {
  if (userAgent === null || userAgent.trim() === '') return 'Unknown browser'
  const browser = findWord(BROWSERS, userAgent)
  const system = findWord(SYSTEMS, userAgent)
  if (browser === undefined) return system === undefined ? userAgent : `Unknown browser on ${system}`
  return system === undefined ? browser : `${browser} on ${system}`
}
