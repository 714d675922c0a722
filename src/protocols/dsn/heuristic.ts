/**
 * @module Makes out from its words what a report in no standard form says. Only of mail that a mail system sent; answers of programs that stand in for a
 * person are never reports (RFC 3834). Time linear in the text, which is bounded.
 */
import { htmlToText } from '../mime/html-text.ts'
import type { ParsedMessage } from '../mime/parsed.ts'
import { linesOf } from './fields.ts'
import {
  AUTOMATIC_REPLY_SUBJECT,
  CAUSES,
  CHALLENGE,
  DELAY,
  FAILURE,
  FAILURE_SUBJECT,
  FINAL,
  RECEIPT_SUBJECT,
  SUCCESS,
} from './phrases.ts'
import type { ReportedRecipient } from './report.ts'
import { nothingReturned, type Returned, returnedOf } from './returned.ts'
import { isVagueStatus, MOST_DIAGNOSTIC_CHARACTERS, statusIn } from './standard.ts'

/** Who sent a message, as far as it matters to what it may be. */
export type Sender = 'mail system' | 'null' | 'other'

const MOST_TEXT_CHARACTERS = 128 * 1024
/** The explanation stands at the top. */
const MOST_LINES = 400
const MOST_LINE_CHARACTERS = 1000
const MOST_RECIPIENTS = 50
const MOST_LINES_OF_ONE = 20

const MAIL_SYSTEM_ADDRESS =
  /^(?:mailer[-_.]?daemon|maildaemon|mail-daemon|mdaemon|postmaster|mail[-_.]?delivery[-_.a-z]*|mailsystem|mail-system|mail-?server|mailerdemon|mmdf|bounces?(?:[-+_].*)?|no-?reply-bounce|delivery-subsystem|antispam-bounce)@/i
const MAIL_SYSTEM_NAME =
  /mail delivery|mail administrator|mailer[- ]daemon|delivery (?:sub)?system|system administrator|systemadministrator|postmaster|internet mail|mail system/i

/** The header fields by which programs mark that they answer for a person. */
const AUTOMATIC_REPLY_FIELDS = [
  'x-autoreply',
  'x-auto-reply',
  'x-autoreply-from',
  'x-autorespond',
  'x-autoresponder',
  'x-mail-autoreply',
  'x-auto-response',
  'x-vacation',
]

/** What is looked at to tell who sent a message and what for. */
export type MessageHead = Pick<ParsedMessage, 'headers' | 'subject' | 'from' | 'fromAddresses'>

export function headerOf(message: Pick<ParsedMessage, 'headers'>, name: string): string | undefined {
  return message.headers.find(([field]) => field.toLowerCase() === name)?.[1].slice(0, 4000)
}

/** @param mailFrom reverse-path of the session where it is known; `''` is the null one */
export function senderOf(message: MessageHead, mailFrom: string | undefined): Sender {
  const from = message.from?.slice(0, MOST_LINE_CHARACTERS) ?? ''
  if (message.fromAddresses.slice(0, 5).some((address) => MAIL_SYSTEM_ADDRESS.test(address))) return 'mail system'
  const isNull = mailFrom === undefined ? headerOf(message, 'return-path')?.trim() === '<>' : mailFrom === ''
  // A name is easily given: it counts with what only systems do.
  if (isNull && MAIL_SYSTEM_NAME.test(from)) return 'mail system'
  return isNull ? 'null' : 'other'
}

/** Whether a message answers for a person, or is a receipt: never a report. */
export function isAutomaticReply(message: MessageHead, sender: Sender): boolean {
  const subject = message.subject.slice(0, MOST_LINE_CHARACTERS)
  if (AUTOMATIC_REPLY_SUBJECT.test(subject) || RECEIPT_SUBJECT.test(subject)) return true
  if (AUTOMATIC_REPLY_FIELDS.some((name) => headerOf(message, name) !== undefined)) return true
  if (/auto[-_]?reply/i.test(headerOf(message, 'precedence') ?? '')) return true
  // Mail systems mark their reports so as well.
  if (sender === 'mail system') return false
  return (
    /^\s*auto-replied/i.test(headerOf(message, 'auto-submitted') ?? '') ||
    headerOf(message, 'x-auto-response-suppress') !== undefined
  )
}

export interface HeuristicReport {
  readonly recipients: readonly ReportedRecipient[]
  readonly returned: Returned
}

/** @param hasReturned whether the message was returned in a part of its own */
export function heuristicReportOf(
  message: ParsedMessage,
  sender: Sender,
  hasReturned: boolean,
): HeuristicReport | undefined {
  if (sender === 'other' || isAutomaticReply(message, sender)) return undefined
  const subject = message.subject.slice(0, MOST_LINE_CHARACTERS)
  const { explanation, returned } = split(textOf(message))
  const whole = explanation.join('\n')
  const failedByHeader = addressesIn(headerOf(message, 'x-failed-recipients') ?? '')
  const isFailureSubject = FAILURE_SUBJECT.test(subject)
  // Anybody can send from the null path; a report also looks like one.
  if (sender === 'null' && !isFailureSubject && !hasReturned && !returned && failedByHeader.length === 0)
    return undefined
  if (sender === 'null' && CHALLENGE.test(whole)) return undefined
  const isDelay = failedByHeader.length === 0 && (DELAY.test(whole) || DELAY.test(subject)) && !FINAL.test(whole)
  const overall = findingOf(explanation)
  const isFailure =
    failedByHeader.length > 0 ||
    overall.isRefused ||
    explanation.some((line) => FAILURE.test(line)) ||
    // An answer repeats the subject of what it answers, and that may have been "Your parcel could not be delivered".
    (isFailureSubject && (sender === 'mail system' || hasReturned || returned !== undefined))
  if (!isDelay && !isFailure) return undefined
  const isQuoted = overall.isRefused || failedByHeader.length > 0 || explanation.some((line) => FAILURE.test(line))
  if (!isQuoted && (SUCCESS.test(whole) || SUCCESS.test(subject))) return undefined
  const excluded = new Set([...message.fromAddresses, ...message.toAddresses].map((address) => address.toLowerCase()))
  return {
    recipients: recipientsOf(explanation, failedByHeader, overall, excluded, isDelay ? 'delayed' : 'failed'),
    returned: returned ?? nothingReturned,
  }
}

function textOf(message: ParsedMessage): string {
  const text = message.text?.slice(0, MOST_TEXT_CHARACTERS) ?? ''
  return text.trim() === '' && message.html !== null ? htmlToText(message.html.slice(0, MOST_TEXT_CHARACTERS)) : text
}

/** Where the returned message begins in a text. */
const RETURNED_MARK =
  /^(?:[-=_*#<>\s]{3,40}[^-=_*].{0,100}(?:message|e-?mail|header|nachricht|kopfzeilen|message d'origine|en-t[êe]te|mensaje|encabezado|messaggio|intestazion|mensagem|cabe[çc]alho|bericht|メッセージ|ヘッダ)|(?:the following is|this is|below (?:this line )?is) a copy of (?:the|your) (?:message|headers)|original message headers|(?:the )?(?:original|returned|undelivered) message (?:headers )?(?:follows|was|is attached)?\s?:?$|message headers? follows?|return-path: ?<|received: from|message-id: ?<)/i
/** Rows of dashes that stand over a list of addresses or a session, as sendmail writes them. */
const OTHER_MARK = /following addresses|transcript of session|permanent fatal errors|diagnos|transient/i

function split(text: string): { explanation: string[]; returned: Returned | undefined } {
  const lines = linesOf(text)
  const explanation: string[] = []
  for (const [index, full] of lines.slice(0, MOST_LINES).entries()) {
    const line = full.slice(0, MOST_LINE_CHARACTERS)
    if (RETURNED_MARK.test(line.trim()) && !OTHER_MARK.test(line)) {
      const rest = lines.slice(/^[a-z-]+: ?[<f]/i.test(line.trim()) ? index : index + 1).join('\n')
      return { explanation, returned: returnedOf(afterNonHeaders(rest)) }
    }
    explanation.push(line)
  }
  return { explanation, returned: undefined }
}

/** Introductory lines before the returned headers; some writers indent all of it. */
function afterNonHeaders(text: string): string {
  const lines = linesOf(text.slice(0, MOST_TEXT_CHARACTERS)).map((line) => line.replace(/^(?:> ?)+/, ''))
  const start = lines.findIndex((line) => /^[ \t]{0,8}[A-Za-z][A-Za-z0-9-]{1,60}: ?\S/.test(line))
  if (start === -1) return ''
  const indent = /^[ \t]*/.exec(lines[start] ?? '')?.[0] ?? ''
  return lines
    .slice(start)
    .map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line))
    .join('\n')
}

interface Finding {
  /** A reply that refuses is quoted, and its cause is known. */
  readonly isRefused: boolean
  readonly status: string | null
  readonly diagnostic: string | null
}

/** A reply that refuses: at the beginning of a line or where it is quoted. */
const REPLY =
  /(?:^[\s"'(<*>-]*|: ?"?|<<< ?|(?:said|error|code|response|replied|returned|answered|status|with|server) ?[:#(]? ?"?)(?<reply>([45])\d\d[ -]\S.*)/i

/** `bob@example.net: 550 5.1.1 User unknown`, on one line. */
const ADDRESS_AND_REASON = /^\s{0,20}<?([^\s<>()[\]"'`,;:@]{1,64}@[^\s<>()[\]"'`,;:@/]{1,255})>?: (\S.{0,2000})$/

/**
 * What the words of a report add to its status part where that gives no diagnostic: OpenSMTPD quotes the reply only in the text, next to the address, and gives
 * 5.0.0 for it.
 */
export function explainRecipient(message: ParsedMessage, recipient: ReportedRecipient): ReportedRecipient {
  const { action, diagnostic, finalRecipient, status } = recipient
  if (diagnostic !== null || finalRecipient === null || (action !== 'failed' && action !== 'delayed')) return recipient
  for (const line of linesOf(textOf(message)).slice(0, MOST_LINES)) {
    const [, address, reason] = ADDRESS_AND_REASON.exec(line.slice(0, MOST_LINE_CHARACTERS)) ?? []
    if (reason === undefined || address?.toLowerCase() !== finalRecipient.toLowerCase()) continue
    const found = findingOf([reason])
    return {
      ...recipient,
      status: isVagueStatus(status) ? (found.status ?? status) : status,
      diagnostic: found.diagnostic ?? cut(reason),
    }
  }
  return recipient
}

/** What lines say of one address, or all lines of the message. */
function findingOf(lines: readonly string[]): Finding {
  const replyAt = lines.findIndex((line) => REPLY.test(line))
  if (replyAt !== -1) {
    const diagnostic = [REPLY.exec(lines[replyAt] ?? '')?.groups?.['reply'] ?? '', ...following(lines, replyAt)].join(
      ' ',
    )
    // The words may say more than a bare code does.
    const status = statusIn(diagnostic) ?? causeOf(diagnostic)?.replace(/^[45]/, diagnostic.slice(0, 1)) ?? null
    return { isRefused: status !== null, status, diagnostic: cut(diagnostic) }
  }
  for (const line of lines) {
    const status = statusIn(line) ?? causeOf(line)
    if (status === null || status.startsWith('2')) continue
    return { isRefused: false, status, diagnostic: cut(line) }
  }
  const failure = lines.find((line) => FAILURE.test(line))
  return { isRefused: false, status: null, diagnostic: failure === undefined ? null : cut(failure) }
}

const causeOf = (text: string): string | null => CAUSES.find(([pattern]) => pattern.test(text))?.[1] ?? null

/** The rest of a reply that was wrapped, up to a blank line. */
function following(lines: readonly string[], at: number): string[] {
  const rest = lines.slice(at + 1, at + 7)
  const end = rest.findIndex((line) => line.trim() === '' || startingAddress(line) !== undefined)
  return end === -1 ? rest : rest.slice(0, end)
}

const cut = (text: string): string => text.replace(/\s+/g, ' ').trim().slice(0, MOST_DIAGNOSTIC_CHARACTERS)

const ADDRESS = /[^\s<>()[\]"'`,;:@]{1,64}@[^\s<>()[\]"'`,;:@/]{1,255}/g

const addressesIn = (text: string): string[] =>
  (text.match(ADDRESS) ?? []).map((address) => address.replace(/(?<![.?!])[.?!]+$/, '')).slice(0, MOST_RECIPIENTS)

/** `<bob@example.net>:`, `  bob@example.net`, `To: bob@example.net ...` */
const STARTING =
  /^[\s>*•·-]{0,20}(?:[\p{L} -]{1,30}: ?)?[<"'(]{0,2}(?<address>[^\s<>()[\]"'`,;:@]{1,64}@[^\s<>()[\]"'`,;:@/]{1,255})(?![^\s<>()[\]"'`,;:])[>"')]{0,2}(?<rest>.*)$/u

const startingAddress = (line: string): string | undefined =>
  line.includes('@') ? STARTING.exec(line)?.groups?.['address']?.replace(/(?<!\.)\.+$/, '') : undefined

function recipientsOf(
  explanation: readonly string[],
  failedByHeader: readonly string[],
  overall: Finding,
  excluded: ReadonlySet<string>,
  action: 'failed' | 'delayed',
): ReportedRecipient[] {
  const isWanted = (address: string) => !excluded.has(address.toLowerCase()) && !MAIL_SYSTEM_ADDRESS.test(address)
  const starts = explanation.flatMap((line, index) => {
    const address = startingAddress(line)
    return address !== undefined && isWanted(address) ? [{ address, index }] : []
  })
  const found = new Map<string, ReportedRecipient>()
  for (const [position, { address, index }] of starts.slice(0, MOST_RECIPIENTS).entries()) {
    if (found.has(address.toLowerCase())) continue
    const end = Math.min(starts[position + 1]?.index ?? explanation.length, index + MOST_LINES_OF_ONE)
    const rest = STARTING.exec(explanation[index] ?? '')?.groups?.['rest'] ?? ''
    const own = findingOf([rest.replace(/^[\s:.,(-]+/, ''), ...explanation.slice(index + 1, end)])
    found.set(address.toLowerCase(), reported(address, own.diagnostic !== null ? own : overall, action))
  }
  const named = failedByHeader.filter(isWanted)
  if (named.length > 0)
    return named.map((address) => found.get(address.toLowerCase()) ?? reported(address, overall, action))
  if (found.size > 0) return [...found.values()]
  const mentioned = addressesIn(explanation.filter((line) => line.includes('@')).join('\n')).find(isWanted)
  return [reported(mentioned ?? null, overall, action)]
}

const reported = (
  address: string | null,
  { status, diagnostic }: Finding,
  action: 'failed' | 'delayed',
): ReportedRecipient => ({
  action,
  finalRecipient: address,
  originalRecipient: null,
  status: action === 'delayed' ? (status?.replace(/^5/, '4') ?? null) : status,
  diagnostic,
  remoteMta: null,
})
