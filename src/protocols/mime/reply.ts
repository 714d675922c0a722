/**
 * @module What somebody wrote themselves in a reply, without what the mail program quoted below or between. The library that knows how mail programs
 * introduce a quotation takes time that grows with the fourth power of a hostile line: it is shown only lines that could matter to it, few and short.
 */
import EmailReplyParser from 'email-reply-parser'

/** Of the text that is looked at; what follows shares the fate of its last part. */
const MOST_CHARACTERS = 64 * 1024
/** Of a line that introduces a quotation. */
const LONGEST_LINE = 160
/** Lines that could introduce a quotation, from the start of the text; the later ones lie in the first quotation. */
const MOST_SHOWN = 60
/** Blank lines in a row; the library looks at all of them from each. */
const MOST_BLANK = 20

/** Words that stand in each introduction that the library knows. */
const INTRODUCES =
  /wrote|écrit|escribió|scritto|escreveu|schrieb|schreef|pisze|napisał|skrev|kirjoitti|写道|작성|メッセージ|^\s*(?:On|Le|El|Il|Em|Am|Op|W dniu|Dnia|Den|pe|ср|From|Von|De|Van|Da)[\s:]|^在|^20\d\d|<[^<>]*>\s*:\s*$|original message|oprindelig besked|message d'origine|ursprüngliche nachricht/i

/**
 * The text without quoted replies, signatures kept; null when nothing was quoted, or when nothing else is there (a forward).
 * Takes any text, in time linear in its length.
 */
export function withoutQuotes(text: string): string | null {
  const cut = cutAtLine(text)
  const lines = cut.split('\n')
  const shown = shownLines(lines)
  const fragments = new EmailReplyParser().read(shown).getFragments()
  if (!fragments.some((fragment) => fragment.isQuoted())) return null
  const own = fragments
    .filter((fragment) => !fragment.isQuoted())
    .map((fragment) => restored(fragment.getContent(), lines))
  if (cut.length < text.length && !fragments.at(-1)?.isQuoted()) own.push(`${own.pop() ?? ''}${text.slice(cut.length)}`)
  const result = own
    .map((part) => part.trimEnd())
    .filter((part) => part !== '')
    .join('\n\n')
  return result === '' ? null : result
}

function cutAtLine(text: string): string {
  if (text.length <= MOST_CHARACTERS) return text
  const end = text.lastIndexOf('\n', MOST_CHARACTERS)
  return text.slice(0, end === -1 ? MOST_CHARACTERS : end)
}

/** A line that the library need not read stands as its number between two characters of private use. */
const MARK = '\ue000'

function shownLines(lines: readonly string[]): string {
  let shownCount = 0
  let blankCount = 0
  return lines
    .map((line, index) => {
      const isBlank = line.trim() === ''
      blankCount = isBlank ? blankCount + 1 : 0
      if (isBlank && blankCount <= MOST_BLANK) return ''
      const hidden = `${MARK}${index}${MARK}`
      if (line.startsWith('>')) return `>${hidden}`
      if (line.length > LONGEST_LINE || shownCount >= MOST_SHOWN || !INTRODUCES.test(line)) return hidden
      shownCount++
      return line.includes(MARK) ? hidden : line
    })
    .join('\n')
}

const restored = (content: string, lines: readonly string[]): string =>
  content.replaceAll(/\ue000(\d+)\ue000/g, (_, index: string) => lines[Number(index)] ?? '')
