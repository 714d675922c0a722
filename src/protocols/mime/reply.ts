/**
 * @module Extracts what the sender of a reply wrote, without the text that the mail program quoted. The library that
 * recognises the introductions of quotations takes time that grows with the fourth power of a hostile line, so it sees
 * only the few short lines that can matter.
 */
import EmailReplyParser from 'email-reply-parser'

/** Text beyond this limit is treated like the last fragment before it. */
const MAX_TEXT_LENGTH = 64 * 1024
/** Maximum length of a line that may introduce a quotation. */
const MAX_LINE_LENGTH = 160
/** Lines that may introduce a quotation, from the start of the text; later ones are inside the first quotation. */
const MAX_VISIBLE_LINES = 60
/** Maximum number of consecutive blank lines: from each of them the library scans all the others. */
const MAX_BLANK_LINES = 20

/** Words that occur in each introduction that the library recognises. */
const INTRODUCTION =
  /wrote|écrit|escribió|scritto|escreveu|schrieb|schreef|pisze|napisał|skrev|kirjoitti|写道|작성|メッセージ|^\s*(?:On|Le|El|Il|Em|Am|Op|W dniu|Dnia|Den|pe|ср|From|Von|De|Van|Da)[\s:]|^在|^20\d\d|<[^<>]*>\s*:\s*$|original message|oprindelig besked|message d'origine|ursprüngliche nachricht/i

/**
 * Removes quoted replies and keeps signatures. Returns null when nothing was quoted, or when nothing else is there (a
 * forward). Accepts any text, in time linear in its length.
 */
export function removeQuotes(text: string): string | null {
  const truncated = truncateAtLine(text)
  const lines = truncated.split('\n')
  const masked = maskLines(lines)
  const fragments = new EmailReplyParser().read(masked).getFragments()
  if (!fragments.some((fragment) => fragment.isQuoted())) return null
  const own = fragments
    .filter((fragment) => !fragment.isQuoted())
    .map((fragment) => restoreLines(fragment.getContent(), lines))
  if (truncated.length < text.length && !fragments.at(-1)?.isQuoted())
    own.push(`${own.pop() ?? ''}${text.slice(truncated.length)}`)
  const result = own
    .map((part) => part.trimEnd())
    .filter((part) => part !== '')
    .join('\n\n')
  return result === '' ? null : result
}

function truncateAtLine(text: string): string {
  if (text.length <= MAX_TEXT_LENGTH) return text
  const end = text.lastIndexOf('\n', MAX_TEXT_LENGTH)
  return text.slice(0, end === -1 ? MAX_TEXT_LENGTH : end)
}

/** A line that the library need not read is replaced by its number between two private-use characters. */
const MARK = '\ue000'

function maskLines(lines: readonly string[]): string {
  let visibleCount = 0
  let blankCount = 0
  return lines
    .map((line, index) => {
      const isBlank = line.trim() === ''
      blankCount = isBlank ? blankCount + 1 : 0
      if (isBlank && blankCount <= MAX_BLANK_LINES) return ''
      const hidden = `${MARK}${index}${MARK}`
      if (line.startsWith('>')) return `>${hidden}`
      if (line.length > MAX_LINE_LENGTH || visibleCount >= MAX_VISIBLE_LINES || !INTRODUCTION.test(line)) return hidden
      visibleCount++
      return line.includes(MARK) ? hidden : line
    })
    .join('\n')
}

const restoreLines = (content: string, lines: readonly string[]): string =>
  content.replaceAll(/\ue000(\d+)\ue000/g, (_, index: string) => lines[Number(index)] ?? '')
