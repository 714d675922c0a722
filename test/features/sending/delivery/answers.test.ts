/** @module What `GET /v1/emails/{id}` says about mail that somebody misses, and the actions that it offers. */
import { expect, test } from 'bun:test'
import { hours, minutes, seconds } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { type EmailApi, expectError } from '#test/support/email-api.ts'
import { startSending } from './flows.ts'

const BOB = 'bob@receiver.test'

interface Action {
  readonly name: string
  readonly method: string
  readonly path: string
  readonly recipient: string | null
}

interface Detail {
  readonly state: string
  readonly status: string
  readonly sentence: string
  readonly explanations: readonly Record<string, unknown>[]
  readonly actions: readonly Action[]
}

const detailOf = async (emails: EmailApi, id: string) => (await emails.detail(id)) as unknown as Detail
const namesOf = ({ actions }: Detail): string[] => actions.map(({ name }) => name)

/** Sends to Bob, and resolves with the detail once it is no longer in delivery. */
async function send(
  emails: EmailApi,
  request: Record<string, unknown> = {},
): Promise<Detail & { readonly id: string }> {
  const { id } = await emails.accepted({ to: BOB, ...request })
  return await eventually(async () => {
    const detail = await detailOf(emails, id)
    return detail.state === 'queued' || detail.state === 'processing' ? undefined : { ...detail, id }
  })
}

const act = (emails: EmailApi, { method, path }: Pick<Action, 'method' | 'path'>) => emails.api(method, path)

// Proves: email-41
test('a bounced address is suppressed; the answers name the reply, the cause and what undoes it', async () => {
  await using emails = await startSending({ rcpt: '550 5.1.1 No such user' })
  const bounced = await send(emails)
  const suppression = { reason: 'hard_bounce', stops: 'all', stream: null, source_email_id: bounced.id }
  expect(bounced.explanations).toMatchObject([
    {
      state: 'bounced',
      who_must_act: 'sender',
      reply: '550 5.1.1 No such user',
      server: 'receiver.test [127.0.0.1]',
      at: new Date(emails.clock.now()).toISOString(),
      tried_until: null,
      suppression,
      further_mail: 'No further mail is sent until the suppression is removed.',
    },
  ])
  expect(namesOf(bounced)).toEqual(['remove_suppression'])

  const rejected = await send(emails)
  expect(rejected.explanations).toMatchObject([
    { state: 'rejected', advice: expect.stringMatching(/^If the address works again/), suppression },
  ])
  expect(rejected.actions).toEqual([
    {
      name: 'remove_suppression',
      method: 'DELETE',
      path: `/v1/suppressions/${encodeURIComponent(BOB)}`,
      recipient: BOB,
    },
  ])
  for (const action of rejected.actions) expect((await act(emails, action)).status).toBe(204)
  const freed = await detailOf(emails, rejected.id)
  expect(freed.explanations).toMatchObject([
    {
      sentence: 'Not sent: the address was suppressed: earlier mail bounced.',
      advice: 'Send it again if it is still wanted.',
      suppression: null,
      further_mail: expect.stringMatching(/is sent to/),
    },
  ])
  expect(namesOf(freed)).toEqual(['resend'])
})

// Proves: email-41, email-42
test('a deferred email says until when it is tried, and is retried on request, but not at once again', async () => {
  await using emails = await startSending({ rcpt: '452 4.2.2 Mailbox full' })
  const acceptedAt = emails.clock.now()
  const deferred = await send(emails)
  expect(deferred.explanations).toMatchObject([
    { state: 'deferred', who_must_act: 'recipient', tried_until: new Date(acceptedAt + hours(48)).toISOString() },
  ])
  expect(namesOf(deferred)).toEqual(['retry'])
  const retry = { method: 'POST', path: `/v1/emails/${deferred.id}/retry` }
  expectError(await act(emails, retry), 429, 'retried_recently')
  emails.clock.advance(seconds(20))
  const retried = await act(emails, retry)
  expect([retried.status, at(retried.body, 'data', 'status')]).toEqual([200, 'queued'])
  const attemptsOf = async () =>
    at((await emails.api('GET', `/v1/emails/${deferred.id}/attempts`)).body, 'pagination', 'total')
  await eventually(async () => (await attemptsOf()) === 2)
  expect(at((await emails.api('GET', '/v1/audit-logs?action=email.retried')).body, 'data')).toMatchObject([
    { resource_id: deferred.id, metadata: { recipients: [BOB] } },
  ])

  const other = await emails.newKey([], await emails.newAccount())
  expectError(await emails.api('POST', retry.path, undefined, { key: other }), 404, 'email_not_found')
  const until = (await emails.accepted({ to: BOB, expires_in: 600 })).id
  await eventually(async () => (await detailOf(emails, until)).state === 'deferred')
  expect((await detailOf(emails, until)).explanations).toMatchObject([
    { tried_until: new Date(emails.clock.now() + seconds(600)).toISOString() },
  ])
  emails.clock.advance(minutes(11))
  const expired = await eventually(async () => {
    const detail = await detailOf(emails, until)
    return detail.status === 'bounced' ? detail : undefined
  })
  expect(namesOf(expired)).toEqual(['retry_dead_letter', 'resend'])
  expectError(await emails.api('POST', `/v1/emails/${until}/retry`), 409, 'email_not_deferred')
})

// Proves: email-41
test('a delivered email says where to look, and a scheduled one can be cancelled', async () => {
  await using emails = await startSending({ body: '250 2.0.0 Queued as 4711' })
  const sent = await send(emails)
  expect(sent.explanations).toMatchObject([
    {
      who_must_act: 'nobody',
      advice: expect.stringMatching(/spam folder/),
      reply: '250 2.0.0 Queued as 4711',
      server: 'receiver.test [127.0.0.1]',
      further_mail: null,
    },
  ])
  expect(namesOf(sent)).toEqual(['resend'])
  const later = await send(emails, { send_at: new Date(emails.clock.now() + hours(1)).toISOString() })
  expect(namesOf(later)).toEqual(['cancel', 'reschedule'])
  expectError(await emails.api('POST', `/v1/emails/${later.id}/retry`), 409, 'email_not_deferred')
})
