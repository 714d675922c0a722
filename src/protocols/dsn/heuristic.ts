/**
 * @module Reads reports that follow no standard by the words they contain. Only mail from a mail system can be a
 * report; an automatic reply on behalf of a person never is (RFC 3834). Limits the text and takes time linear in its
 * length.
 */
import { htmlToText } from '../mime/html-text.ts'
import type { ParsedMessage } from '../mime/parsed.ts'
import { type DsnRecipient, NOTHING_RETURNED, parseReturned, type ReturnedEmail, splitLines } from './fields.ts'
import * as phrases from './phrases.ts'
import { findStatus, isVagueStatus, MAX_DIAGNOSTIC_LENGTH } from './standard.ts'

/** What kind of sender a message has. */
export type SenderKind = 'mail system' | 'null' | 'other'

const MAX_TEXT_LENGTH = 128 * 1024
/** Maximum number of lines read; the explanation is at the top. */
const MAX_LINES = 400
const MAX_LINE_LENGTH = 1000
const MAX_RECIPIENTS = 50

const MAIL_SYSTEM_ADDRESS =
  /^(?:mailer[-_.]?daemon|maildaemon|mail-daemon|mdaemon|postmaster|mail[-_.]?delivery[-_.a-z]*|mailsystem|mail-system|mail-?server|mailerdemon|mmdf|bounces?(?:[-+_].*)?|no-?reply-bounce|delivery-subsystem|antispam-bounce)@/i
const MAIL_SYSTEM_NAME =
  /mail delivery|mail administrator|mailer[- ]daemon|delivery (?:sub)?system|system administrator|systemadministrator|postmaster|internet mail|mail system/i

/** Header fields that mark an automatic reply on behalf of a person. */
const AUTOMATIC_REPLY_FIELDS =
  `x-autoreply x-auto-reply x-autoreply-from x-autorespond x-autoresponder x-mail-autoreply x-auto-response
  x-vacation`.split(/\s+/)

/** The fields of a message that classify its sender. */
export type MessageHead = Pick<ParsedMessage, 'headers' | 'subject' | 'from' | 'fromAddresses'>

export function findHeader(message: Pick<ParsedMessage, 'headers'>, name: string): string | undefined {
  return message.headers.find(([field]) => field.toLowerCase() === name)?.[1].slice(0, 4000)
}

/** @param mailFrom reverse-path of the session, `''` for the null reverse-path */
export function classifySender(message: MessageHead, mailFrom: string): SenderKind {
  const from = message.from?.slice(0, MAX_LINE_LENGTH) ?? ''
  if (message.fromAddresses.slice(0, 5).some((address) => MAIL_SYSTEM_ADDRESS.test(address))) return 'mail system'
  const isNull = mailFrom === ''
  // Anyone can choose a display name, so the name counts only together with the null reverse-path.
  if (isNull && MAIL_SYSTEM_NAME.test(from)) return 'mail system'
  return isNull ? 'null' : 'other'
}

/** Whether a message is an automatic reply on behalf of a person, or a receipt; neither is a report. */
export function isAutomaticReply(message: MessageHead, sender: SenderKind): boolean {
  const subject = message.subject.slice(0, MAX_LINE_LENGTH)
  if (phrases.AUTOMATIC_REPLY_SUBJECT.test(subject) || phrases.RECEIPT_SUBJECT.test(subject)) return true
  if (AUTOMATIC_REPLY_FIELDS.some((name) => findHeader(message, name) !== undefined)) return true
  if (/auto[-_]?reply/i.test(findHeader(message, 'precedence') ?? '')) return true
  // Mail systems set the following fields on their reports too.
  if (sender === 'mail system') return false
  return (
    /^\s*auto-replied/i.test(findHeader(message, 'auto-submitted') ?? '') ||
    findHeader(message, 'x-auto-response-suppress') !== undefined
  )
}

export interface HeuristicDsn {
  readonly recipient: DsnRecipient
  readonly returned: ReturnedEmail
}

/** @param hasReturned whether a separate part contains the returned message */
export function parseHeuristicDsn(
  message: ParsedMessage,
  sender: SenderKind,
  hasReturned: boolean,
): HeuristicDsn | undefined {
  if (sender === 'other' || isAutomaticReply(message, sender)) return undefined
  const subject = message.subject.slice(0, MAX_LINE_LENGTH)
  const { explanation, returned } = splitAtReturned(readText(message))
  const whole = explanation.join('\n')
  const failedByHeader = findAddresses(findHeader(message, 'x-failed-recipients') ?? '')
  const isFailureSubject = phrases.FAILURE_SUBJECT.test(subject)
  // Anyone can send with a null reverse-path, so such a message must also look like a report.
  if (sender === 'null' && !isFailureSubject && !hasReturned && !returned && failedByHeader.length === 0)
    return undefined
  if (sender === 'null' && phrases.CHALLENGE.test(whole)) return undefined
  const isDelay =
    failedByHeader.length === 0 &&
    (phrases.DELAY.test(whole) || phrases.DELAY.test(subject)) &&
    !phrases.FINAL.test(whole)
  const overall = describeFailure(explanation)
  const isFailureStated =
    failedByHeader.length > 0 || overall.isRejected || explanation.some((line) => phrases.FAILURE.test(line))
  const isFailure =
    isFailureStated ||
    // The subject alone is not enough, because a reply repeats the original subject, which may have been "Your parcel
    // could not be delivered".
    (isFailureSubject && (sender === 'mail system' || hasReturned || returned !== undefined))
  if (!isDelay && !isFailure) return undefined
  if (!isFailureStated && (phrases.SUCCESS.test(whole) || phrases.SUCCESS.test(subject))) return undefined
  const excluded = new Set([...message.fromAddresses, ...message.toAddresses].map((address) => address.toLowerCase()))
  return {
    recipient: findRecipient(explanation, failedByHeader, excluded, isDelay ? 'delayed' : 'failed'),
    returned: returned ?? NOTHING_RETURNED,
  }
}

function readText(message: ParsedMessage): string {
  const text = message.text?.slice(0, MAX_TEXT_LENGTH) ?? ''
  return text.trim() === '' && message.html !== null ? htmlToText(message.html.slice(0, MAX_TEXT_LENGTH)) : text
}

/** Matches the line before the returned message, or the first line of its header. */
const RETURNED_MARK =
  /^(?:[-=_*#<>\s]{3,40}[^-=_*].{0,100}(?:message|e-?mail|header|nachricht|kopfzeilen|message d'origine|en-t[êe]te|mensaje|encabezado|messaggio|intestazion|mensagem|cabe[çc]alho|bericht|メッセージ|ヘッダ)|(?:the following is|this is|below (?:this line )?is) a copy of (?:the|your) (?:message|headers)|original message headers|(?:the )?(?:original|returned|undelivered) message (?:headers )?(?:follows|was|is attached)?\s?:?$|message headers? follows?|return-path: ?<|received: from|message-id: ?<)/i
/**
 * Matches lines that only look like `RETURNED_MARK`: sendmail writes such rows of dashes above a list of addresses and
 * above the transcript of a session.
 */
const OTHER_MARK = /following addresses|transcript of session|permanent fatal errors|diagnos|transient/i

function splitAtReturned(text: string): { explanation: string[]; returned: ReturnedEmail | undefined } {
  const lines = splitLines(text)
  const explanation: string[] = []
  for (const [index, full] of lines.slice(0, MAX_LINES).entries()) {
    const line = full.slice(0, MAX_LINE_LENGTH)
    if (RETURNED_MARK.test(line.trim()) && !OTHER_MARK.test(line)) {
      const rest = lines.slice(/^[a-z-]+: ?[<f]/i.test(line.trim()) ? index : index + 1).join('\n')
      return { explanation, returned: parseReturned(skipToHeaders(rest)) }
    }
    explanation.push(line)
  }
  return { explanation, returned: undefined }
}

/** Skips introductory lines before the returned headers, and removes the indentation that some senders add. */
function skipToHeaders(text: string): string {
  const lines = splitLines(text.slice(0, MAX_TEXT_LENGTH)).map((line) => line.replace(/^(?:> ?)+/, ''))
  const start = lines.findIndex((line) => /^[ \t]{0,8}[A-Za-z][A-Za-z0-9-]{1,60}: ?\S/.test(line))
  if (start === -1) return ''
  const indent = /^[ \t]*/.exec(lines[start] ?? '')?.[0] ?? ''
  return lines
    .slice(start)
    .map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line))
    .join('\n')
}

interface FailureDescription {
  /** Whether the text quotes a rejecting reply whose cause is known. */
  readonly isRejected: boolean
  readonly status: string | null
  readonly diagnostic: string | null
}

/** Matches a rejecting reply, at the start of a line or quoted. */
const REPLY =
  /(?:^[\s"'(<*>-]*|: ?"?|<<< ?|(?:said|error|problem|code|response|replied|returned|answered|status|with|server) ?[:#(=]? ?"?)(?<reply>([45])\d\d[ -]\S.*)/i

/** Matches `bob@example.net: 550 5.1.1 User unknown`, on one line. */
const ADDRESS_AND_REASON = /^\s{0,20}<?([^\s<>()[\]"'`,;:@]{1,64}@[^\s<>()[\]"'`,;:@/]{1,255})>?: (\S.{0,2000})$/

/** A list of what the cause may have been. */
const GUESS = /\b(?:may|might|possibl[ey]|perhaps|usually|often|could be)\b/i

/**
 * Adds the diagnostic from the text to a recipient whose status part has none. OpenSMTPD quotes the reply only in the
 * text, next to the address, and sets the status 5.0.0; gateways write it on a line of its own.
 * @param isOnly whether the report is about no other recipient
 */
export function addExplanation(message: ParsedMessage, recipient: DsnRecipient, isOnly: boolean): DsnRecipient {
  const { action, diagnostic, finalRecipient, status } = recipient
  if (diagnostic !== null || finalRecipient === null || (action !== 'failed' && action !== 'delayed')) return recipient
  const { explanation } = splitAtReturned(readText(message))
  for (const line of explanation) {
    const [, address, reason] = ADDRESS_AND_REASON.exec(line) ?? []
    if (reason === undefined || address?.toLowerCase() !== finalRecipient.toLowerCase()) continue
    const found = describeFailure([reason])
    return {
      ...recipient,
      status: isVagueStatus(status) ? (found.status ?? status) : status,
      diagnostic: found.diagnostic ?? cleanDiagnostic(reason),
    }
  }
  if (!isOnly || !isVagueStatus(status)) return recipient
  const found = describeFailure(explanation.filter((line) => !GUESS.test(line)))
  return found.status === null ? recipient : { ...recipient, status: found.status, diagnostic: found.diagnostic }
}

/** Describes a failure from the lines about one address, or from all lines of the explanation. */
function describeFailure(lines: readonly string[]): FailureDescription {
  const replyAt = lines.findIndex((line) => REPLY.test(line))
  if (replyAt !== -1) {
    const diagnostic = [
      REPLY.exec(lines[replyAt] ?? '')?.groups?.['reply'] ?? '',
      ...readWrappedLines(lines, replyAt),
    ].join(' ')
    // If the reply has no enhanced status, its words may be more specific than the bare code.
    const status =
      findStatus(diagnostic) ?? findCauseStatus(diagnostic)?.replace(/^[45]/, diagnostic.slice(0, 1)) ?? null
    return { isRejected: status !== null, status, diagnostic: cleanDiagnostic(diagnostic) }
  }
  for (const line of lines) {
    const status = findStatus(line) ?? findCauseStatus(line)
    if (status === null || status.startsWith('2')) continue
    return { isRejected: false, status, diagnostic: cleanDiagnostic(line) }
  }
  const failure = lines.find((line) => phrases.FAILURE.test(line))
  return { isRejected: false, status: null, diagnostic: failure === undefined ? null : cleanDiagnostic(failure) }
}

const findCauseStatus = (text: string): string | null =>
  phrases.CAUSES.find(([pattern]) => pattern.test(text))?.[1] ?? null

const STARTING_ADDRESS = /^[\s>*<"'(]{0,20}[^\s<>()[\]"'`,;:@]{1,64}@/

/** Returns the continuation lines of a wrapped reply, up to a blank line or another address. */
function readWrappedLines(lines: readonly string[], at: number): string[] {
  const rest = lines.slice(at + 1, at + 7)
  const end = rest.findIndex((line) => line.trim() === '' || STARTING_ADDRESS.test(line))
  return end === -1 ? rest : rest.slice(0, end)
}

const cleanDiagnostic = (text: string): string => text.replace(/\s+/g, ' ').trim().slice(0, MAX_DIAGNOSTIC_LENGTH)

const ADDRESS = /[^\s<>()[\]"'`,;:@]{1,64}@[^\s<>()[\]"'`,;:@/]{1,255}/g

const findAddresses = (text: string): string[] =>
  (text.match(ADDRESS) ?? []).map((address) => address.replace(/(?<![.?!])[.?!]+$/, '')).slice(0, MAX_RECIPIENTS)

/**
 * The recipient that the text is about. The return path proves which it is, and each has its own, so the text is read
 * for one: what it says about the first address, else what it says at all.
 */
function findRecipient(
  explanation: readonly string[],
  failedByHeader: readonly string[],
  excluded: ReadonlySet<string>,
  action: 'failed' | 'delayed',
): DsnRecipient {
  const isRecipient = (address: string) => !excluded.has(address.toLowerCase()) && !MAIL_SYSTEM_ADDRESS.test(address)
  const inText = [STARTING_ADDRESS, /@/].flatMap((pattern) =>
    findAddresses(explanation.filter((line) => pattern.test(line)).join('\n')),
  )
  const address = [...failedByHeader, ...inText].find(isRecipient) ?? null
  const at = address === null ? -1 : explanation.findIndex((line) => line.includes(address))
  const rest = at === -1 ? '' : (explanation[at]?.split(address ?? '')[1] ?? '').replace(/^[\s>"')]*[\s:.,(-]*/, '')
  const own = describeFailure(at === -1 ? [] : [rest, ...explanation.slice(at + 1)])
  const { status, diagnostic } = own.diagnostic === null ? describeFailure(explanation) : own
  return {
    action,
    finalRecipient: address,
    originalRecipient: null,
    status: action === 'delayed' ? (status?.replace(/^5/, '4') ?? null) : status,
    diagnostic,
    remoteMta: null,
  }
}
