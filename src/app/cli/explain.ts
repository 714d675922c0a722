/**
 * @module `tassis explain`: what happened to an email, for each recipient: why, who must act, what comes next, and the
 * attempts with server, TLS, timings and dialogue. Never writes.
 */
import type { Command } from 'commander'
import type { App } from '#features/core/app/app.ts'
import { listDeadLettersOfEmail } from '#features/sending/dead-letters/read.ts'
import { type Attempt, attemptWire } from '#features/sending/delivery/control/attempt-routes.ts'
import { explainEmail } from '#features/sending/delivery/control/explain.ts'
import type { Responsible } from '#features/sending/emails/model.ts'
import { readEmailEvents } from '#features/sending/emails/read.ts'
import { toEmailState } from '#features/sending/emails/wire.ts'
import { listAttempts } from '#features/sending/queue/attempt-transitions.ts'
import { AppError } from '#platform/errors.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { formatRelativeTime } from '#platform/text.ts'
import type { Millis } from '#platform/time/clock.ts'
import { EMAIL_ARGUMENT, type FoundEmail, requireEmail, withOwner } from '../find-email.ts'
import { defineAdminCommand } from './admin-command.ts'
import { runAdminCommand } from './call.ts'
import { findNewestEmailTo } from './email-list.ts'
import { readWaits } from './explain-wait.ts'
import { addCommand, type JsonOption, withLimit } from './options.ts'
import { formatCount, formatFields, formatUtc, printResult, toPrintable } from './output.ts'

interface Input {
  readonly id: string
  /** Maximum number of recipients. */
  readonly limit: number
}

/** Attempts read per email. */
const MAX_ATTEMPTS = 1000

const explain = defineAdminCommand('explain', async (context, { id, limit }: Input) => {
  const { app } = context.opened
  const found = await requireEmailOrNewestTo(app, id)
  const { email, account, accountId } = found
  const attempts = Map.groupBy(
    listAttempts(app.db, email.id, { limit: MAX_ATTEMPTS, offset: 0 }).attempts,
    ({ recipientId }) => recipientId,
  )
  const findWait = await readWaits(context, found, (recipientId) => attempts.get(recipientId)?.[0])
  const { sentence, explanations } = explainEmail(email, readEmailEvents(app, accountId, email.id), findWait)
  const letters = new Map(listDeadLettersOfEmail(app.db, email.id).map((letter) => [letter.recipientId, letter.id]))
  const recentDialogues = context.delivery?.scheduler.recentDialogues
  return {
    id: formatUuid(email.uuid),
    account,
    from_address: email.from,
    subject: email.subject,
    accepted_at: isoTime(email.createdAt),
    state: toEmailState(email),
    sentence,
    now: isoTime(app.clock.now()),
    recipient_count: email.recipients.length,
    recipients: explanations.slice(0, limit).flatMap((explanation, index) => {
      const recipient = email.recipients[index]
      if (!recipient) return []
      const letterId = letters.get(recipient.id)
      const { status } = recipient
      return {
        ...explanation,
        kind: recipient.kind,
        attempt_count: recipient.attempts,
        expires_at: isoTimeOrNull(recipient.expiresAt),
        dead_letter_id: letterId === undefined ? null : String(letterId),
        attempts: (attempts.get(recipient.id) ?? []).map((attempt) =>
          attemptWire(attempt, {
            status,
            dialogue: attempt.type === 'delivered' ? recentDialogues?.find(recipient.id) : undefined,
          }),
        ),
      }
    }),
  }
})

export const explainAdminCommands = [explain]

type ExplainedEmail = Awaited<ReturnType<(typeof explain)['run']>>
type RecipientView = ExplainedEmail['recipients'][number]

/** The email that `text` names, else the newest one to that address, or to the one that begins so. Throws 404 and 409. */
async function requireEmailOrNewestTo(app: App, text: string): Promise<FoundEmail> {
  try {
    return requireEmail(app, text)
  } catch (error) {
    const newest = isNotFound(error) ? await findNewestEmailTo(app, text) : undefined
    if (!newest) throw error
    return withOwner(app, newest)
  }
}

const isNotFound = (error: unknown): boolean => error instanceof AppError && error.status === 404

interface ExplainOptions extends JsonOption {
  readonly limit: number
  readonly all?: boolean | undefined
}

/** @param parent the program, or the group `tassis emails` */
export function addExplainCommand(parent: Command): void {
  withLimit(
    addCommand(parent, 'explain', 'explain an email: its attempts, what comes next, who must act'),
    'recipients',
    10,
  )
    .argument('<id>', `${EMAIL_ARGUMENT}; or an address or its beginning, for the newest email to it`)
    .option('--all', 'show the dialogue of each attempt, not only of the last')
    .action(async (id: string, { limit, all = false, json }: ExplainOptions) => {
      const found = await runAdminCommand(explain, { id, limit })
      printResult(json === undefined ? {} : { json }, found, (value) => formatExplanation(value, all))
    })
}

const RESPONSIBLE_LABELS: Readonly<Record<Responsible, string>> = {
  nobody: 'nobody',
  recipient: 'the recipient or the operator of the receiving server',
  sender: 'the sender',
  operator: 'you, the operator of this service',
}

function formatExplanation(explained: ExplainedEmail, isAll: boolean): string {
  const { recipients, recipient_count: count, state, sentence } = explained
  const now = Date.parse(explained.now)
  return [
    formatFields([
      ['Email', explained.id],
      ['Account', explained.account],
      ['From', explained.from_address],
      ['Subject', explained.subject],
      ['Accepted', formatUtc(explained.accepted_at)],
      ['State', count === 1 ? state : `${state}. ${sentence}`],
    ]),
    ...recipients.flatMap((recipient) => ['', ...formatRecipient(recipient, now, isAll)]),
    ...(count > recipients.length ? ['', `… and ${count - recipients.length} more recipients (--limit)`] : []),
  ].join('\n')
}

function formatRecipient(recipient: RecipientView, now: Millis, isAll: boolean): string[] {
  const {
    address,
    kind,
    state,
    sentence,
    advice,
    attempt_count: count,
    next_at: nextAt,
    expires_at: expiresAt,
  } = recipient
  return [
    toPrintable(`${address} (${kind}): ${state} after ${formatCount(count, 'attempt')}`),
    formatFields(
      [
        ['Why', sentence],
        ['To do', advice],
        ['Who acts', RESPONSIBLE_LABELS[recipient.who_must_act]],
        ['Next', formatNext(recipient, now)],
        ['Deadline', expiresAt !== null && nextAt !== null ? formatTime(expiresAt, now) : null],
      ],
      2,
    ),
    ...recipient.attempts.flatMap((attempt, index) => ['', ...formatAttempt(attempt, now, isAll || index === 0)]),
  ]
}

const formatTime = (iso: string, now: Millis): string =>
  `${formatUtc(iso)} (${formatRelativeTime(Date.parse(iso), now)})`

function formatNext(recipient: RecipientView, now: Millis): string {
  const { state, next_at: nextAt, expires_at: expiresAt, dead_letter_id: letterId } = recipient
  if (letterId !== null) return `nothing automatically; \`tassis dead-letters retry ${letterId}\` tries again`
  if (state === 'processing') return 'the attempt in progress ends'
  if (nextAt === null) return state === 'held' ? 'nothing, until that has ended' : 'nothing'
  const isDue = Date.parse(nextAt) <= now
  const what = nextAt === expiresAt ? 'ends as expired' : isDue ? 'attempt, due since' : 'attempt'
  return `${what} ${formatTime(nextAt, now)}`
}

function formatAttempt(attempt: Attempt, now: Millis, withDialogue: boolean): string[] {
  const { host, address, source, tls, timings, dialogue } = attempt
  const reply = attempt.smtp_response
  return [
    `  Attempt ${attempt.attempt}, ${formatTime(attempt.ended_at, now)}: ${attempt.outcome}`,
    formatFields(
      [
        ['Server', host === null ? null : `${host} [${address}]${source === null ? '' : `, from ${source}`}`],
        ['TLS', tls],
        ['Reply', reply],
        ['Reason', attempt.reason === reply ? null : attempt.reason],
        ['Category', attempt.category],
        ['Rule', attempt.rule],
        ['Timings', timings && formatTimings(timings)],
      ],
      4,
    ),
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
