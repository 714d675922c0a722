/** @module The text of 100 templates beside what a browser shows of them. */
import { expect, test } from 'bun:test'
import { htmlToText } from '#protocols/mime/html-text.ts'
import { BROWSER_TEST_MS, isChromiumAvailable, openPage, SCREENS, startBrowser } from '#test/support/browser.ts'
import { buildTemplates } from './html-templates.ts'

/** The text of the page without what is too small to be seen, which `innerText` would include. */
const READ_TEXT = `(() => {
  for (const element of [...document.body.querySelectorAll('*')].reverse()) {
    const { fontSize, overflow, maxHeight, opacity } = getComputedStyle(element)
    if (opacity === '0' || (overflow === 'hidden' && maxHeight === '0px')) element.remove()
    if (fontSize === '0px') for (const node of [...element.childNodes]) if (node.nodeType === 3) node.remove()
  }
  return document.body.innerText
})()`

/** Without characters that take no space; joiners beside letters stay. */
const normalise = (text: string): string =>
  text
    .replace(/\u00ad|\u034f|\ufeff/g, '')
    .replace(/(?<!\S)\u200c(?!\S)/g, '')
    .toLowerCase()

/** Without what a plain text adds: URLs of links, marks of lists and quotations. */
const withoutMarks = (text: string): string =>
  text.replace(/<[^<>\s]*[:|][^<>\s]*>/g, '').replace(/^(?:> ?)*(?: *(?:\*|\d+\.) )?/gm, '')

const wordsOf = (text: string): string[] => normalise(text).split(/\s+/).filter(Boolean)

/** The positions between characters at which words end. */
function findEnds(words: readonly string[]): number[] {
  let at = 0
  return words.map((word) => {
    at += word.length
    return at
  })
}

// Proves: send-20
test.skipIf(!isChromiumAvailable())(
  'the text of 100 templates has all words that a browser shows, in their order, and joins none',
  async () => {
    const templates = buildTemplates(10)
    expect(templates.length).toBe(100)
    await using browser = await startBrowser()
    await using opened = await openPage(browser, SCREENS[2] as (typeof SCREENS)[number])
    for (const { name, html } of templates) {
      await opened.page.setContent(html, { waitUntil: 'commit' })
      const shown = wordsOf(await opened.page.evaluate<string>(READ_TEXT))
      const ours = wordsOf(withoutMarks(htmlToText(html)))
      expect({ name, text: ours.join('') }).toEqual({ name, text: shown.join('') })
      const ends = new Set(findEnds(ours))
      expect({ name, joined: findEnds(shown).filter((end) => !ends.has(end)) }).toEqual({ name, joined: [] })
      expect({ name, joined: ours.filter((word) => /w\d+[a-h]+w\d/.test(word)) }).toEqual({ name, joined: [] })
    }
  },
  BROWSER_TEST_MS,
)
