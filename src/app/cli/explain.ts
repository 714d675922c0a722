/**
 * @module `tassis explain`: what happened to an email, for each recipient: why, who must act, what comes next, and the
 * attempts with server, TLS, timings and dialogue. Never writes.
 */
import type { EmailAttempt } from '#client/api.ts'
import { TassisError } from '#client/client.ts'
import type { OperatorEmailExplanation } from '#client/operator-api.ts'
import { systemClock } from '#platform/time/clock.ts'
import { type CommandApi, findOne } from './api.ts'
import type { Command, Context } from './command.ts'
import { CommandError } from './errors.ts'
import { EMAIL_ARGUMENT } from './options.ts'
import { formatCount, formatFields, formatUtc, formatUtcFromNow, printResult, toPrintable } from './output.ts'

interface ExplainOptions {
  readonly limit: number
  readonly all?: boolean | undefined
}

/** @param parent the program, or the group `tassis emails` */
export function addExplainCommand(parent: Command): void {
  parent
    .add('explain', 'explain an email: its attempts, what comes next, who must act')
    .limit('recipients', 10)
    .argument('<id>', `${EMAIL_ARGUMENT}; or an address or its beginning, for the newest email to it`)
    .option('--all', 'show the dialogue of each attempt, not only of the last')
    .run(async ({ api, options }: Context<ExplainOptions>, text) => {
      const explained = await api.operator.getEmailExplanation(await findEmail(api, text))
      printResult(options, explained, ({ data }) => formatExplanation(data, options))
    })
}

/** Id of the email that `text` names, else of the newest one to that address, or to the only one that begins so. */
async function findEmail(api: CommandApi, text: string): Promise<string> {
  try {
    return (await findOne(api, 'email', text)).id
  } catch (error) {
    if (!(error instanceof TassisError) || error.status !== 404) throw error
    const newest = /^[^@\s]{3,}(@\S*)?$/.test(text) ? await findNewestTo(api, text) : undefined
    if (newest === undefined) throw error
    return newest
  }
}

const MAX_SHOWN_ADDRESSES = 5

async function findNewestTo(api: CommandApi, text: string): Promise<string | undefined> {
  const { data: emails } = await api.operator.listEmails({ to: text, per_page: 100 })
  const start = text.toLowerCase()
  const recipients = emails.flatMap(({ to, cc, bcc }) => [...to.split(', '), ...cc, ...bcc])
  const addresses = new Set(recipients.map((address) => address.toLowerCase()).filter((to) => to.startsWith(start)))
  if (addresses.size <= 1 || addresses.has(start)) return emails[0]?.id
  const shown = [...addresses].slice(0, MAX_SHOWN_ADDRESSES).map(toPrintable).join(', ')
  throw new CommandError(
    `Mail went to several addresses that begin with "${toPrintable(text)}"; give one of them: ${shown}${addresses.size > MAX_SHOWN_ADDRESSES ? ', …' : ''}.`,
    'email_ambiguous',
  )
}

const RESPONSIBLE_LABELS: Readonly<Record<Recipient['who_must_act'], string>> = {
  nobody: 'nobody',
  recipient: 'the recipient or the operator of the receiving server',
  sender: 'the sender',
  operator: 'you, the operator of this service',
}

type Recipient = OperatorEmailExplanation['recipients'][number]

function formatExplanation(explained: OperatorEmailExplanation, { limit, all = false }: ExplainOptions): string {
  const { recipients, state, sentence } = explained
  return [
    formatFields([
      ['Email', explained.id],
      ['Account', explained.account],
      ['From', explained.from_address],
      ['Subject', explained.subject],
      ['Accepted', formatUtc(explained.created_at)],
      ['State', recipients.length === 1 ? state : `${state}. ${sentence}`],
    ]),
    ...recipients.slice(0, limit).flatMap((recipient) => ['', ...formatRecipient(recipient, all)]),
    ...(recipients.length > limit ? ['', `… and ${recipients.length - limit} more recipients (--limit)`] : []),
  ].join('\n')
}

function formatRecipient(recipient: Recipient, isAll: boolean): string[] {
  const { address, kind, state, attempt_count: count, next_at: nextAt, expires_at: expiresAt } = recipient
  return [
    toPrintable(`${address} (${kind}): ${state} after ${formatCount(count, 'attempt')}`),
    formatFields(
      [
        ['Why', recipient.sentence],
        ['To do', recipient.advice],
        ['Who acts', RESPONSIBLE_LABELS[recipient.who_must_act]],
        ['Next', formatNext(recipient)],
        ['Deadline', expiresAt !== null && nextAt !== null ? formatUtcFromNow(expiresAt) : null],
      ],
      2,
    ),
    ...recipient.attempts.flatMap((attempt, index) => ['', ...formatAttempt(attempt, isAll || index === 0)]),
  ]
}

function formatNext(recipient: Recipient): string {
  const { state, next_at: nextAt, expires_at: expiresAt, dead_letter_id: letterId } = recipient
  if (letterId !== null) return `nothing automatically; \`tassis dead-letters retry ${letterId}\` tries again`
  if (state === 'processing') return 'the attempt in progress ends'
  if (nextAt === null) return state === 'held' ? 'nothing, until that has ended' : 'nothing'
  const isDue = Date.parse(nextAt) <= systemClock.now()
  const what = nextAt === expiresAt ? 'ends as expired' : isDue ? 'attempt, due since' : 'attempt'
  return `${what} ${formatUtcFromNow(nextAt)}`
}

function formatAttempt(attempt: EmailAttempt, withDialogue: boolean): string[] {
  const { host, address, source, tls, timings, dialogue } = attempt
  const reply = attempt.smtp_response
  return [
    `  Attempt ${attempt.attempt}, ${formatUtcFromNow(attempt.ended_at)}: ${attempt.outcome}`,
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

const formatLine = ({ at_ms: at, from, text }: NonNullable<EmailAttempt['dialogue']>[number]): string =>
  toPrintable(`${String(at).padStart(9)} ${MARKS[from]} ${text}`)
