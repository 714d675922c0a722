/** @module Tools to find, explain and send emails, and to read events and figures. */
import { Type } from '@sinclair/typebox'
import { ApiError, dataOf, defineTool, Id, input, maybe, PAGE, pageQuery, path, Words } from '../tool.ts'
import { address, fields, list, owned, pageOf, strange } from '../view.ts'

/** Recipients of an email that a tool sends: it is for single emails, never for a list. */
const MAX_RECIPIENTS = 10
const MAX_BODY_LENGTH = 200_000

const EMAIL_ROW = {
  ...owned('id status attempts sandbox created_at scheduled_at sent_at next_retry_at'),
  from_address: address,
  to_address: address,
  subject: strange,
  tags: list(strange),
  error_message: strange,
}

const EventRow = fields({
  ...owned('seq id type email_id created_at bounce_type bounce_category'),
  recipient: address,
  diagnostic_code: strange,
  remote_mta: strange,
  link_url: strange,
})

const findEmails = defineTool({
  name: 'find_emails',
  title: 'Find emails',
  description:
    'Lists emails that this account sent, newest first, with their status. Use explain_email with the id of a row to learn why it bounced, failed or waits.',
  scopes: ['emails:read'],
  effect: 'read',
  input: input({
    to: maybe(Words('Address of a recipient, or its beginning.')),
    from: maybe(Words('Address of the sender.')),
    subject: maybe(Words('Words of the subject.')),
    status: maybe(
      Words('One of queued, scheduled, processing, sent, delivered, bounced, failed, rejected, cancelled, uncertain.'),
    ),
    tag: maybe(Words('A tag.')),
    stream: maybe(Words('Slug of a message stream.')),
    message_id: maybe(Words('The Message-ID header.')),
    from_date: maybe(Words('Only emails since this date or time (ISO 8601).')),
    to_date: maybe(Words('Only emails up to this date or time (ISO 8601).')),
    ...PAGE,
  }),
  view: pageOf(EMAIL_ROW),
  run: (call, { limit, cursor, ...filters }) =>
    call({ method: 'GET', path: '/emails', query: { ...filters, ...pageQuery(limit, cursor) } }),
})

/** The last attempts say most. */
const MAX_ATTEMPTS = 20

const explainEmail = defineTool({
  name: 'explain_email',
  title: 'Explain an email',
  description:
    'Tells what happened to one email and why: each recipient with its status, every delivery attempt with the reply of the receiving server, who must act, and our advice, and the events so far. Does not show the body.',
  scopes: ['emails:read'],
  effect: 'read',
  input: input({ id: Id('Id of the email, from find_emails or send_email.') }),
  view: fields({
    email: fields({
      ...EMAIL_ROW,
      ...owned('max_attempts operation_id'),
      message_id: strange,
      idempotency_key: strange,
      explanations: list(fields({ ...owned('state who_must_act advice next_at'), address, sentence: strange })),
      recipients: list(
        fields({
          ...owned('kind status attempts next_retry_at delivered_at bounce_type bounce_category'),
          address,
          smtp_response: strange,
        }),
      ),
      events: list(EventRow),
    }),
    attempts: list(
      fields({
        ...owned('attempt ended_at outcome category source tls next_attempt_at who_must_act advice'),
        recipient: address,
        host: strange,
        smtp_response: strange,
        reason: strange,
      }),
    ),
  }),
  run: async (call, { id }) => {
    const [email, attempts] = await Promise.all([
      call({ method: 'GET', path: path`/emails/${id}` }),
      call({ method: 'GET', path: path`/emails/${id}/attempts`, query: { per_page: MAX_ATTEMPTS } }),
    ])
    return { email: dataOf(email), attempts: dataOf(attempts) }
  },
})

const listEvents = defineTool({
  name: 'list_events',
  title: 'List events since a position',
  description:
    'Lists the events of the account (sent, delivered, bounced, opened, …) in order, after a position. Call again with `next_after` as `after` for the events since then.',
  scopes: ['emails:read'],
  effect: 'read',
  input: input({
    after: maybe(
      Type.Integer({
        minimum: 0,
        description: 'Only events after the one with this `seq`; default: the newest events.',
      }),
    ),
    types: maybe(Words('Only these types, separated by commas.')),
    limit: PAGE.limit,
  }),
  view: fields({ ...owned('next_after first_seq last_seq'), data: list(EventRow) }),
  run: (call, { after, types, limit = 20 }) =>
    call({
      method: 'GET',
      path: '/events',
      query: { types, limit, ...(after === undefined ? { order: 'newest' } : { after }) },
    }),
})

const Recipients = (description: string) =>
  Type.Array(Type.String({ minLength: 1, maxLength: 500 }), { maxItems: MAX_RECIPIENTS, description })

const sendEmail = defineTool({
  name: 'send_email',
  title: 'Send one email',
  description: `Sends one email, to at most ${MAX_RECIPIENTS} recipients in all, never to a contact list. It cannot be called back once it is sent. Ask the person who gave you the task before you send anything that they did not ask for. Give an idempotency_key, so that a repeated call sends nothing twice.`,
  scopes: ['emails:send'],
  effect: 'write',
  input: input({
    from: Type.String({ minLength: 1, maxLength: 500, description: 'Sender: an address at a domain of this account.' }),
    to: Recipients('Recipients.'),
    cc: maybe(Recipients('Further recipients, in Cc.')),
    subject: maybe(Words('Subject; may be left out with a template.')),
    text_body: maybe(Type.String({ maxLength: MAX_BODY_LENGTH, description: 'Body as plain text.' })),
    html_body: maybe(Type.String({ maxLength: MAX_BODY_LENGTH, description: 'Body as HTML.' })),
    template_alias: maybe(Words('Alias of a stored template, instead of subject and bodies.')),
    template_data: maybe(Type.Record(Type.String(), Type.Unknown(), { description: 'Variables of the template.' })),
    reply_to: maybe(Words('Address for replies.')),
    tags: maybe(Type.Array(Type.String({ maxLength: 128 }), { maxItems: 20, description: 'Tags.' })),
    send_at: maybe(Words('Time at which to send (ISO 8601); default: now.')),
    idempotency_key: maybe(Words('The same key returns the same email and sends nothing again.')),
  }),
  view: fields({
    data: fields({ ...owned('id status sandbox created_at scheduled_at replayed mismatch'), to: strange }),
  }),
  run: async (call, request) => {
    if (request.to.length + (request.cc?.length ?? 0) > MAX_RECIPIENTS)
      throw new ApiError(422, {
        code: 'too_many_recipients',
        message: `This tool sends to at most ${MAX_RECIPIENTS} recipients in all; send several emails.`,
      })
    return call({ method: 'POST', path: '/emails', body: request })
  },
})

const getAnalytics = defineTool({
  name: 'get_analytics',
  title: 'Get delivery figures',
  description:
    'Figures of the account: sent, delivered, bounced, opens, clicks, complaints and their rates, in total, by day, or by domain of the recipients.',
  scopes: ['analytics:read'],
  effect: 'read',
  input: input({
    by: maybe(
      Type.Union([Type.Literal('total'), Type.Literal('day'), Type.Literal('recipient_domain')], {
        description: 'total (default), day or recipient_domain.',
      }),
    ),
    period: maybe(Words('7d, 30d (default) or 90d.')),
    from: maybe(Words('First day (YYYY-MM-DD), instead of period.')),
    to: maybe(Words('Last day (YYYY-MM-DD).')),
  }),
  view: (value, maxLength) => {
    const { data, period } = value as { readonly data?: unknown; readonly period?: unknown }
    const figures = Array.isArray(data)
      ? list(FIGURES)(data.slice(-MAX_FIGURE_ROWS), maxLength)
      : FIGURES(data, maxLength)
    return { data: figures, period: fields(owned('from to'))(period, maxLength) }
  },
  run: (call, { by = 'total', ...query }) => call({ method: 'GET', path: `/analytics/${ANALYTICS_PATHS[by]}`, query }),
})

/** The last days of a longer period. */
const MAX_FIGURE_ROWS = 50

const ANALYTICS_PATHS = { total: 'overview', day: 'timeseries', recipient_domain: 'domains' } as const

const FIGURES = fields({
  ...owned('date sent delivered bounced opens clicks complaints unsubscribes'),
  ...owned('delivery_rate bounce_rate open_rate click_rate'),
  domain: strange,
})

export const emailTools = [findEmails, explainEmail, listEvents, getAnalytics, sendEmail]
