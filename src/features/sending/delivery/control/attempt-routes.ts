/** @module JSON of the attempts of an email, for the API and `tassis explain`. Never reads the database. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith, requiresOrSupport } from '#features/core/app/http.ts'
import { readSendResponse } from '#features/sending/accept/accept.ts'
import { SendResponse } from '#features/sending/accept/model.ts'
import { RATE_HEADERS, type TakeRate } from '#features/sending/accept/sendable.ts'
import { WhoMustAct } from '#features/sending/emails/model.ts'
import { getEmail } from '#features/sending/emails/read.ts'
import { listAttempts, type StoredAttempt } from '#features/sending/queue/attempt-transitions.ts'
import type { Status } from '#features/sending/queue/status.ts'
import { describeRoute, responseHeaders } from '#platform/http/access.ts'
import { dataBody, isoTime, pageBody } from '#platform/http/envelope.ts'
import { DataBody, Nullable, PageBody, PageQuery, parsePage, StringEnum, Timestamp } from '#platform/http/schemas.ts'
import { retryEmail } from './actions.ts'
import { adviseOnAttempt } from './explain.ts'

/** Roles of the lines of a dialogue, by their marks. */
const SPEAKERS = { '>': 'client', '<': 'server', '*': 'note' } as const

export const DialogueLine = Type.Object({
  at_ms: Type.Integer({ minimum: 0, description: 'Milliseconds since the attempt began.' }),
  from: StringEnum(['client', 'server', 'note'], {
    description: '`client`: a command of this service; `server`: the reply; `note`: a remark of this service.',
  }),
  text: Type.String({ description: 'The line, without control characters.' }),
})
export type DialogueLine = Static<typeof DialogueLine>

export const Attempt = Type.Object({
  recipient: Type.String({ description: 'Address.' }),
  attempt: Type.Integer({ description: 'Number of the attempt, from 1; begins again when a dead letter is retried.' }),
  ended_at: Timestamp({ description: 'When the attempt ended.' }),
  outcome: StringEnum(['delivered', 'deferred', 'bounced', 'failed', 'uncertain'], {
    description: 'How it ended, as the type of its event.',
  }),
  source: Nullable(Type.String(), { description: 'Our IP address; null without a session.' }),
  host: Nullable(Type.String(), { description: 'Last server of the attempt: its name. Null if none was tried.' }),
  address: Nullable(Type.String(), { description: 'IP address of that server.' }),
  tls: Nullable(Type.String(), {
    description: 'TLS version, cipher and certificate of the session, or why it was not encrypted.',
  }),
  timings: Nullable(Type.Record(Type.String(), Type.Integer({ minimum: 0 })), {
    description:
      'Milliseconds by phase with the last server: `connect`, `greeting`, `ehlo`, `tls`, `auth`, `mail`, `rcpt`, `data`, `begin` (we store that the message begins) and `body`. Without `connect` if the session was reused.',
  }),
  smtp_response: Nullable(Type.String(), { description: 'Reply that ended the attempt.' }),
  reason: Nullable(Type.String(), { description: 'Why it was not delivered, as a sentence.' }),
  category: Nullable(Type.String(), { description: 'Category of a bounce or deferral.' }),
  rule: Nullable(Type.String(), { description: 'Rule that decided what the reply means.' }),
  next_attempt_at: Nullable(Timestamp(), { description: 'When the next attempt was due after this one.' }),
  who_must_act: WhoMustAct,
  advice: Type.String({ description: 'What to do.' }),
  dialogue: Nullable(Type.Array(DialogueLine), {
    description:
      'Commands and replies, without passwords and the message. Null if there was no session, for older attempts, and for accepted mail except the most recent.',
  }),
})
export type Attempt = Static<typeof Attempt>

/** `name [address]`. */
const SERVER = /^([^ ]*) \[([^\]]*)\]$/
const LINE = /^(\d+) ([<>*]) (.*)$/s

const parseDialogue = (dialogue: string): DialogueLine[] =>
  dialogue.split('\n').flatMap((line) => {
    const [, at, mark = '*', text = ''] = LINE.exec(line) ?? []
    return at === undefined ? [] : [{ at_ms: Number(at), from: SPEAKERS[mark as keyof typeof SPEAKERS], text }]
  })

/** With the status of its recipient now, and the dialogue of an accepted message, which is stored nowhere. */
export function attemptWire(stored: StoredAttempt, status: Status, findDialogue: FindDialogue): Attempt {
  const { data, type } = stored
  const fields = data as Readonly<Record<string, unknown>>
  const text = (name: string): string | null => (typeof fields[name] === 'string' ? fields[name] : null)
  const [, host = null, address = null] = SERVER.exec(text('remote_mta') ?? '') ?? []
  const category = text('bounce_category')
  const { who, text: advice } = adviseOnAttempt(stored, status)
  const lines = stored.dialogue ?? (type === 'delivered' ? findDialogue(stored.recipientId) : undefined)
  return {
    recipient: stored.address,
    attempt: stored.number,
    ended_at: isoTime(stored.at),
    outcome: type as Attempt['outcome'],
    source: text('ip_address'),
    host,
    address,
    tls: text('tls'),
    timings: data.timings ?? null,
    smtp_response: text('smtp_response'),
    reason: text('reason'),
    category,
    rule: text('rule'),
    next_attempt_at: typeof data.next_retry_at === 'number' ? isoTime(data.next_retry_at) : null,
    who_must_act: who,
    advice,
    dialogue: lines === undefined ? null : parseDialogue(lines),
  }
}

/** The dialogue of a recent accepted message, by row id of its recipient. */
export type FindDialogue = (recipientId: number) => string | undefined

export const retryRoutes = (app: App, { takeRate }: { readonly takeRate: TakeRate }) =>
  new Elysia({ prefix: '/v1/emails', tags: ['Emails'] }).use(authenticated).post(
    '/:id/retry',
    async ({ actor, params, set }) => {
      const admit = () => void Object.assign(set.headers, takeRate(actor))
      return dataBody(readSendResponse(app, await retryEmail(app, actor, params.id, admit)))
    },
    {
      params: Type.Object({ id: Type.String({ description: 'Id of the email.' }) }),
      response: DataBody(SendResponse),
      detail: describeWith('emails:send')(
        'Retry a deferred email now',
        'Makes the recipients due that wait for the time of their next attempt. A server that does not answer is still not tried before the end of its backoff of at most 15 minutes; `next_at` says when. A 409 `email_not_deferred` if none waits; a 429 `retried_recently` within 10 seconds of the last attempt.',
        responseHeaders(...RATE_HEADERS),
      ),
    },
  )

export const attemptRoutes = (app: App, { findDialogue }: { readonly findDialogue: FindDialogue }) =>
  new Elysia({ prefix: '/v1/emails', tags: ['Emails'] }).use(authenticated).get(
    '/:id/attempts',
    ({ actor, params, query }) => {
      const email = getEmail(app.db, actor.accountId, params.id)
      const page = parsePage(query)
      const { attempts, total } = listAttempts(app.db, email.id, page)
      const statuses = new Map(email.recipients.map(({ id, status }) => [id, status]))
      return pageBody(
        attempts.map((each) => attemptWire(each, statuses.get(each.recipientId) ?? email.status, findDialogue)),
        { ...page, total },
      )
    },
    {
      params: Type.Object({ id: Type.String({ description: 'Id of the email.' }) }),
      query: PageQuery,
      response: PageBody(Attempt),
      detail: describeRoute(
        'List the delivery attempts of an email',
        requiresOrSupport('emails:read'),
        'Newest first: server, TLS, timings, the SMTP dialogue, and who must act. Of attempts that did not deliver, the last 10 of each recipient, the last 3 with their dialogue.',
      ),
    },
  )
