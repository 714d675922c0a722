/**
 * @module `tassis explain`: what happened to an email, for each recipient: the attempts with server, TLS, timings and
 * dialogue, what comes next, and who must act. Never writes.
 */
import type { Command } from 'commander'
import type { App } from '#features/core/app/app.ts'
import { listDeadLettersOfEmail } from '#features/sending/dead-letters/read.ts'
import { adviseOnRecipient, type Responsible } from '#features/sending/delivery/advice.ts'
import { type Attempt, attemptWire, toFinding } from '#features/sending/delivery/attempt-model.ts'
import type { StoredEmail, StoredRecipient } from '#features/sending/emails/read.ts'
import { listAttempts, type StoredAttempt } from '#features/sending/queue/attempts.ts'
import { simulatorDomain } from '#features/sending/queue/lanes.ts'
import type { Status } from '#features/sending/queue/status.ts'
import type { Millis } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import { AppError } from '#platform/errors.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import { type AdminCommandContext, defineAdminCommand } from './admin-command.ts'
import { runAdminCommand } from './call.ts'
import { findNewestEmailTo } from './email-list.ts'
import { readWaits, type Wait, type WaitsFor } from './explain-wait.ts'
import { EMAIL_ARGUMENT, type FoundEmail, requireEmail, withAccount } from './find-email.ts'
import { type JsonOption, withJson, withLimit } from './options.ts'
import { formatCount, formatRelativeTime, formatUtc, printResult, toPrintable } from './output.ts'
import { describeStatus } from './status-words.ts'

interface RecipientView {
  readonly address: string
  readonly kind: string
  readonly status: Status
  readonly attempt_count: number
  /** When it is due next, or ends at its deadline; null once it has ended. */
  readonly next_at: string | null
  /** Whether an operator holds it. */
  readonly held: boolean
  /** What must end before the next attempt; `next_at` is then null, unless the wait ends automatically. */
  readonly waits_for: WaitsFor
  readonly expires_at: string | null
  /** Its dead letter, by which it can be tried again; null: none. */
  readonly dead_letter_id: string | null
  readonly who_must_act: Responsible
  readonly advice: string
  /** Newest first. */
  readonly attempts: readonly Attempt[]
}

interface Explanation {
  readonly id: string
  readonly account: string
  readonly from_address: string
  readonly subject: string
  readonly accepted_at: string
  readonly status: Status
  /** Whether it was captured or simulated. */
  readonly sandbox: boolean
  /** When the explanation was made; times are shown relative to it. */
  readonly now: string
  /** Whether a running service delivers mail. */
  readonly delivering: boolean
  readonly recipient_count: number
  readonly recipients: readonly RecipientView[]
}

interface Input {
  readonly id: string
  /** Maximum number of recipients. */
  readonly limit: number
}

/** Attempts read per email. */
const MAX_ATTEMPTS = 1000

const explain = defineAdminCommand('explain', async (context, { id, limit }: Input): Promise<Explanation> => {
  const { app } = context.opened
  const found = await requireEmailOrNewestTo(app, id)
  const { email, account } = found
  const attempts = Map.groupBy(
    listAttempts(app.db, email.id, { limit: MAX_ATTEMPTS, offset: 0 }).attempts,
    ({ recipientId }) => recipientId,
  )
  const recipients = email.recipients.slice(0, limit)
  const findWait = await readWaits(context, found, recipients, (recipientId) => attempts.get(recipientId)?.[0])
  const letters = new Map(listDeadLettersOfEmail(app.db, email.id).map((letter) => [letter.recipientId, letter.id]))
  return {
    id: formatUuid(email.uuid),
    account,
    from_address: email.from,
    subject: email.subject,
    accepted_at: isoTime(email.createdAt),
    status: email.status,
    sandbox: email.sandbox,
    now: isoTime(app.clock.now()),
    delivering: context.delivery !== undefined,
    recipient_count: email.recipients.length,
    recipients: recipients.map((recipient) =>
      toRecipientView(
        context,
        email,
        { recipient, wait: findWait(recipient), letterId: letters.get(recipient.id) },
        attempts.get(recipient.id) ?? [],
      ),
    ),
  }
})

export const explainAdminCommands = [explain]

/** The email that `text` names, else the newest one to that address, or to the one that begins so. Throws 404 and 409. */
async function requireEmailOrNewestTo(app: App, text: string): Promise<FoundEmail> {
  try {
    return requireEmail(app, text)
  } catch (error) {
    const newest = isNotFound(error) ? await findNewestEmailTo(app, text) : undefined
    if (!newest) throw error
    return withAccount(app, newest)
  }
}

const isNotFound = (error: unknown): boolean => error instanceof AppError && error.status === 404

/** Why the email does not leave this machine; undefined when it does. */
function findCaptureReason(config: Config, { sandbox }: StoredEmail, { address }: StoredRecipient) {
  if (domainOfMailbox(address).toLowerCase() === simulatorDomain(config)) return 'simulator'
  if (sandbox) return 'domain'
  return config.delivery === 'capture' ? 'mode' : undefined
}

/** Whether no attempt is made until somebody acts. */
const isStopped = ({ waitsFor }: Wait): boolean => waitsFor === 'hold' || waitsFor === 'fence' || waitsFor === 'account'

interface RecipientFacts {
  readonly recipient: StoredRecipient
  readonly wait: Wait
  /** Row id of its dead letter. */
  readonly letterId: number | undefined
}

function toRecipientView(
  context: AdminCommandContext,
  email: StoredEmail,
  { recipient, wait, letterId }: RecipientFacts,
  attempts: readonly StoredAttempt[],
): RecipientView {
  const { app } = context.opened
  const recent = context.delivery?.scheduler.recentDialogues
  const [newest] = attempts
  const { who, text } = adviseOnRecipient({
    status: recipient.status,
    category: recipient.bounceCategory,
    lastError: recipient.lastError,
    lastAttempt: newest && toFinding(newest),
    captured: findCaptureReason(app.config, email, recipient),
    waitReason: wait.reason,
    blockedBy: wait.blockedBy,
  })
  return {
    address: recipient.address,
    kind: recipient.kind,
    status: recipient.status,
    attempt_count: recipient.attempts,
    next_at: recipient.status === 'processing' || isStopped(wait) ? null : isoTimeOrNull(recipient.retryAt),
    held: wait.waitsFor === 'hold',
    waits_for: wait.waitsFor,
    expires_at: isoTimeOrNull(recipient.expiresAt),
    dead_letter_id: letterId === undefined ? null : String(letterId),
    who_must_act: who,
    advice: text,
    attempts: attempts.map((attempt) =>
      attemptWire(attempt, {
        status: recipient.status,
        dialogue: attempt.type === 'delivered' ? recent?.find(attempt.recipientId) : undefined,
      }),
    ),
  }
}

interface ExplainOptions extends JsonOption {
  readonly limit: number
  readonly all?: boolean
}

/** @param parent the program, or the group `tassis emails` */
export function addExplainCommand(parent: Command): void {
  withLimit(
    withJson(parent.command('explain').description('explain an email: its attempts, what comes next, who must act')),
    'maximum number of recipients',
    10,
  )
    .argument('<id>', `${EMAIL_ARGUMENT}; or an address or its beginning, for the newest email to it`)
    .option('--all', 'show the dialogue of each attempt, not only of the last')
    .action(async (id: string, { limit, all = false, json }: ExplainOptions) => {
      const found = await runAdminCommand(explain, { id, limit })
      printResult(json === undefined ? {} : { json }, found, (value) => formatExplanation(value, all))
    })
}

const RESPONSIBLE_WORDS: Readonly<Record<Responsible, string>> = {
  nobody: 'nobody',
  recipient: 'the recipient or the operator of the receiving server',
  sender: 'the sender',
  operator: 'you, the operator of this service',
}

function formatExplanation(explanation: Explanation, isAll: boolean): string {
  const { recipients, recipient_count: count, status, sandbox } = explanation
  const lines: [name: string, value: string][] = [
    ['Email', explanation.id],
    ['Account', explanation.account],
    ['From', explanation.from_address],
    ['Subject', explanation.subject],
    ['Accepted', formatUtc(explanation.accepted_at)],
    ['Status', describeStatus(status, sandbox)],
  ]
  return [
    ...lines.map(([name, value]) => formatField(name, value, 0)),
    ...recipients.flatMap((recipient) => ['', ...formatRecipient(recipient, explanation, isAll)]),
    ...(count > recipients.length ? ['', `… and ${count - recipients.length} more recipients (--limit)`] : []),
  ].join('\n')
}

const formatField = (name: string, value: string, indent: number): string =>
  toPrintable(`${' '.repeat(indent)}${`${name}:`.padEnd(11)}${value}`)

function formatRecipient(recipient: RecipientView, { now, delivering }: Explanation, isAll: boolean): string[] {
  const { address, kind, status, attempt_count: count, attempts, expires_at: expiresAt } = recipient
  const asOf = Date.parse(now)
  return [
    toPrintable(`${address} (${kind}): ${status} after ${formatCount(count, 'attempt')}`),
    formatField('Next', formatNext(recipient, asOf, delivering), 2),
    ...(expiresAt !== null && recipient.next_at !== null
      ? [formatField('Deadline', formatTime(expiresAt, asOf), 2)]
      : []),
    formatField('Who acts', RESPONSIBLE_WORDS[recipient.who_must_act], 2),
    formatField('Why', recipient.advice, 2),
    ...attempts.flatMap((attempt, index) => ['', ...formatAttempt(attempt, asOf, isAll || index === 0)]),
  ]
}

const formatTime = (iso: string, now: Millis): string =>
  `${formatUtc(iso)} (${formatRelativeTime(Date.parse(iso), now)})`

const NEXT_AFTER_WAIT: Readonly<Record<NonNullable<WaitsFor>, string>> = {
  hold: 'nothing, until the hold is released',
  fence: 'nothing, until it is released or dropped (tassis fence)',
  account: 'nothing, until the account may send again',
  suspension: 'attempt once the suspension ends',
  dns: 'attempt once DNS answers',
}

function formatNext(
  { status, waits_for: waitsFor, next_at: nextAt, expires_at: expiresAt, dead_letter_id: letterId }: RecipientView,
  now: Millis,
  delivering: boolean,
) {
  if (status === 'processing') return 'the attempt in progress ends'
  if (waitsFor !== null) return NEXT_AFTER_WAIT[waitsFor]
  if (nextAt === null)
    return letterId === null
      ? 'nothing'
      : `nothing automatically; \`tassis dead-letters retry ${letterId}\` tries again`
  const isDue = Date.parse(nextAt) <= now
  const what = nextAt === expiresAt ? 'ends as expired' : isDue ? 'attempt, due since' : 'attempt'
  return `${what} ${formatTime(nextAt, now)}${delivering ? '' : ', once the service runs'}`
}

function formatAttempt(attempt: Attempt, now: Millis, withDialogue: boolean): string[] {
  const { host, address, source, tls, timings, dialogue } = attempt
  const field = (name: string, value: string | null) => (value === null ? [] : [formatField(name, value, 4)])
  const reply = attempt.smtp_response
  return [
    `  Attempt ${attempt.attempt}, ${formatTime(attempt.ended_at, now)}: ${attempt.outcome}`,
    ...field('Server', host === null ? null : `${host} [${address}]${source === null ? '' : `, from ${source}`}`),
    ...field('TLS', tls),
    ...field('Reply', reply),
    ...field('Reason', attempt.reason === reply ? null : attempt.reason),
    ...field('Category', attempt.category),
    ...field('Rule', attempt.rule),
    ...field('Timings', timings && formatTimings(timings)),
    ...(withDialogue && dialogue ? ['    Dialogue, in ms:', ...dialogue.map(formatLine)] : []),
  ]
}

const formatTimings = (timings: Readonly<Record<string, number>>): string => {
  const phases = Object.entries(timings).map(([phase, ms]) => `${phase} ${ms} ms`)
  return [...(timings['connect'] === undefined ? ['session reused'] : []), ...phases].join(', ')
}

const MARKS = { client: '>', server: '<', note: '*' } as const

const formatLine = ({ at_ms: at, from, text }: NonNullable<Attempt['dialogue']>[number]): string =>
  toPrintable(`${String(at).padStart(9)} ${MARKS[from]} ${text}`)
