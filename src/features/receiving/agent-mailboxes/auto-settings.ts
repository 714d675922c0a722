/**
 * @module The auto-responder of a mailbox as its owner configures it: whether it is enabled, and its rules. Stored as
 * JSON in the mailbox's row.
 */
import { type Static, Type } from '@sinclair/typebox'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import type { StoredMessage } from '#features/receiving/received/message.ts'
import { requireHeaderSafe } from '#features/sending/accept/attachments.ts'
import { requireAllowedDomain } from '#features/setup/api-keys/limits.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { invalid } from '#platform/errors.ts'
import { extra, StrictObject, StringEnum } from '#platform/http/schemas.ts'
import { KiB } from '#platform/units.ts'
import { parseDomain } from '#protocols/address/domain.ts'
import { normaliseAddress, parseMailbox } from '#protocols/address/parse.ts'
import { getMailbox } from './mailboxes.ts'

const MAX_RULES = 20
/** Limited because a list shows the rules of 100 mailboxes. */
const MAX_RULES_BYTES = 64 * KiB
/** Characters of a message's text that rules search. */
const MAX_SEARCHED_LENGTH = 100_000

const SearchText = Type.String({ minLength: 1, maxLength: 200 })

const Conditions = StrictObject({
  from: Type.Optional({
    ...SearchText,
    description: 'Address in From, such as ada@example.com, or a domain: @example.com.',
  }),
  subject_contains: Type.Optional({ ...SearchText, description: 'Text in the subject, ignoring case.' }),
  text_contains: Type.Optional({
    ...SearchText,
    description: `Text in the first ${MAX_SEARCHED_LENGTH} characters of the text body, ignoring case.`,
  }),
})

const TextBody = Type.String({ minLength: 1, maxLength: 20_000, description: 'Text body.' })
const HtmlBody = Type.String({ minLength: 1, maxLength: 50_000, description: 'HTML body.' })

export const AutoResponderRule = StrictObject(
  {
    match: Type.Optional(
      Type.Union([Conditions, StringEnum(['all', '*'])], {
        description:
          'All given conditions must hold; without conditions, without `match`, or with `all` or `*` every message matches.',
      }),
    ),
    reply: Type.Optional(
      StrictObject(
        {
          subject: Type.Optional(
            Type.String({
              minLength: 1,
              maxLength: 200,
              description: 'Subject after "Auto: "; default: the subject of the message.',
            }),
          ),
          text_body: TextBody,
          html_body: Type.Optional(HtmlBody),
        },
        { description: 'The reply.' },
      ),
    ),
    action: Type.Optional(
      StrictObject(
        { reply_text: Type.Optional(TextBody), reply_html: Type.Optional(HtmlBody) },
        { description: 'Another form of the reply, instead of `reply`; at least one body.' },
      ),
    ),
  },
  { title: 'AutoResponderRule', description: 'The first matching rule answers; without a match there is no reply.' },
)
export type AutoResponderRule = Static<typeof AutoResponderRule>

const Enabled = Type.Boolean({ description: 'Whether messages are answered; initially false.' })
const Rules = Type.Array(AutoResponderRule, {
  maxItems: MAX_RULES,
  description: `Rules in order; at most ${MAX_RULES}, and ${MAX_RULES_BYTES / KiB} KiB of JSON.`,
})

export const AutoResponderChange = StrictObject(
  { enabled: Type.Optional(Enabled), rules: Type.Optional(Rules) },
  {
    description: 'At least one field; absent fields keep their values. New rules replace all existing ones.',
    examples: [
      {
        enabled: true,
        rules: [
          {
            match: { subject_contains: 'invoice' },
            reply: { text_body: 'Thank you. Our bookkeeping has your invoice and answers within a week.' },
          },
        ],
      },
    ],
  },
)
export type AutoResponderChange = Static<typeof AutoResponderChange>

export type AutoResponder = Required<AutoResponderChange>

export const AutoResponderRecord = Type.Object(
  {
    auto_responder_enabled: Enabled,
    auto_responder_rules: Rules,
    enabled: extra(Enabled),
    rules: extra(Rules),
  },
  { title: 'AutoResponder' },
)

export const toAutoResponderWire = ({ enabled, rules }: AutoResponder) => ({
  auto_responder_enabled: enabled,
  auto_responder_rules: rules,
  enabled,
  rules,
})

const sql = prepareStatements((db) => ({
  update: db.prepare('UPDATE agent_mailboxes SET auto_responder = ?, updated_at = ? WHERE id = ?'),
}))

/** Parses the stored auto-responder; default: disabled, without rules. */
export const parseAutoResponder = (stored: string | null): AutoResponder =>
  stored === null ? { enabled: false, rules: [] } : (JSON.parse(stored) as AutoResponder)

/** Updates the given fields of an auto-responder; throws 422 when there are none. */
export function changeAutoResponder(
  app: App,
  actor: Actor,
  mailboxId: string,
  change: AutoResponderChange,
): Promise<AutoResponder> {
  if (change.enabled === undefined && change.rules === undefined)
    throw invalid('body', 'The body must have at least one of enabled and rules.')
  change.rules?.forEach(requireValidRule)
  return app.commit.write((tx) => {
    const mailbox = getMailbox(tx.db, actor.accountId, mailboxId)
    requireAllowedDomain(actor, mailbox.domain)
    const before = parseAutoResponder(mailbox.autoResponder)
    const after: AutoResponder = { enabled: change.enabled ?? before.enabled, rules: change.rules ?? before.rules }
    const stored = JSON.stringify(after)
    if (Buffer.byteLength(stored) > MAX_RULES_BYTES)
      throw invalid('rules', `The rules must not exceed ${MAX_RULES_BYTES / KiB} KiB of JSON; shorten their replies.`)
    sql(tx.db).update.run(stored, app.eventTime(), mailbox.id)
    auditChange(app, tx, actor, 'mailbox.auto_responder_updated', mailbox.uuid, {
      enabled: after.enabled,
      rules: after.rules.length,
    })
    return after
  })
}

/** Validates what the schema cannot express. */
function requireValidRule({ match, reply, action }: AutoResponderRule, index: number): void {
  if ((reply === undefined) === (action === undefined))
    throw invalid(`rules.${index}`, 'A rule must have either reply or action.')
  if (action && action.reply_text === undefined && action.reply_html === undefined)
    throw invalid(`rules.${index}.action`, 'action must have reply_text, reply_html or both.')
  const from = toConditions(match).from
  if (from !== undefined && !isSenderPattern(from)) {
    throw invalid(
      `rules.${index}.match.from`,
      'from must be an address such as ada@example.com, or a domain after an @, such as @example.com.',
    )
  }
  if (reply?.subject !== undefined) requireHeaderSafe(`rules.${index}.reply.subject`, reply.subject)
}

function isSenderPattern(text: string): boolean {
  if (text.startsWith('@')) return parseDomain(text.slice(1)).kind === 'ok'
  const parsed = parseMailbox(text)
  return parsed.kind === 'ok' && parsed.name === undefined
}

/** Finds the first rule that matches a message; undefined: none matches. */
export const findRule = (
  rules: readonly AutoResponderRule[],
  message: Pick<StoredMessage, 'fromAddresses' | 'subject' | 'text'>,
): AutoResponderRule | undefined => rules.find(({ match }) => isMatch(toConditions(match), message))

/** The bodies and the subject of the reply of a rule, in whichever form it was given. */
export const readReply = ({ reply, action }: AutoResponderRule) => ({
  subject: reply?.subject,
  text: reply?.text_body ?? action?.reply_text,
  html: reply?.html_body ?? action?.reply_html,
})

const toConditions = (match: AutoResponderRule['match']): Static<typeof Conditions> =>
  typeof match === 'object' ? match : {}

function isMatch(
  { from, subject_contains: inSubject, text_contains: inText }: Static<typeof Conditions>,
  message: Pick<StoredMessage, 'fromAddresses' | 'subject' | 'text'>,
): boolean {
  return (
    (from === undefined || isFrom(from, message.fromAddresses[0] ?? '')) &&
    (inSubject === undefined || contains(message.subject, inSubject)) &&
    (inText === undefined || contains((message.text ?? '').slice(0, MAX_SEARCHED_LENGTH), inText))
  )
}

function isFrom(pattern: string, address: string): boolean {
  const sender = normaliseAddress(address)
  if (!pattern.startsWith('@')) return sender === normaliseAddress(pattern)
  // `normaliseAddress` needs a local part to normalise the domain of the pattern.
  return sender.slice(sender.lastIndexOf('@')) === normaliseAddress(`x${pattern}`).slice(1)
}

const contains = (text: string, part: string): boolean => text.toLowerCase().includes(part.toLowerCase())
