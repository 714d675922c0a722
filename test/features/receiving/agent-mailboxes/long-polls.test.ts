import { describe, expect, test } from 'bun:test'
import { createHttp } from '#app/http.ts'
import { deliverToMailbox } from '#features/receiving/agent-mailboxes/deliver.ts'
import { nackMessage } from '#features/receiving/agent-mailboxes/leases.ts'
import { LongPolls, MAX_WAITING_PER_ACCOUNT } from '#features/receiving/agent-mailboxes/long-polls.ts'
import { deleteMailbox, type Mailbox } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import { formatUuid } from '#platform/ids.ts'
import { days, minutes, seconds } from '#platform/units.ts'
import { type ApiResponse, at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { expectError, shareEmailApi } from '#test/support/email-api.ts'
import { createMailboxApi, createReceivedMessage, type MailboxApi } from '#test/support/mailboxes.ts'

const service = shareEmailApi(createMailboxApi)

const next = ({ api, path }: MailboxApi, mailbox: Mailbox, timeout = 0) =>
  api('GET', path(mailbox, `/messages/next?timeout=${timeout}`))
const idOf = ({ status, body }: ApiResponse) => (status === 200 ? at(body, 'data', 'id') : status)
const tokenOf = ({ body }: ApiResponse) => at(body, 'lease_token')
const end = ({ api, path }: MailboxApi, mailbox: Mailbox, verb: 'ack' | 'nack', id: unknown, token: unknown) =>
  api('POST', path(mailbox, `/messages/${id}/${verb}`), { lease_token: token })
const unread = async ({ api, path }: MailboxApi, mailbox: Mailbox) =>
  at((await api('GET', path(mailbox))).body, 'data', 'unread_count')

/** Waits for pending work: a group of commits, and everything that it woke. */
const settle = async ({ app }: MailboxApi) => {
  for (let turn = 0; turn < 3; turn++) await app.commit.barrier()
}

/** Sends a request and resolves when it waits, which sets a timer. */
async function waitForRequest(
  service: MailboxApi,
  ask: () => Promise<ApiResponse>,
): Promise<{ answer: Promise<ApiResponse> }> {
  const before = service.clock.running
  const answer = ask()
  await eventually(() => service.clock.running > before)
  return { answer }
}

/** Long polls without HTTP, so that a test knows when a request waits. */
function openLongPolls({ app }: MailboxApi) {
  const ending = new AbortController()
  return { longPolls: new LongPolls(app, ending.signal), ending }
}

const waiting = (longPolls: LongPolls, service: MailboxApi, mailbox: Mailbox, waitMs = seconds(28)) => {
  const leaving = new AbortController()
  const outcome = longPolls.next(service.actor, mailbox, waitMs, leaving.signal).then(
    (lease) => ({ messageId: lease.messageId }),
    (error: { status: number; code: string }) => ({ status: error.status, code: error.code }),
  )
  return { outcome, leave: () => leaving.abort() }
}

test('a lease granted while the clock was 40 days ahead is expired once the clock is right', async () => {
  const mailbox = await service.newMailbox({ local_part: 'support' })
  const id = await service.deliver(mailbox, { subject: 'First' })
  expect(idOf(await next(service, mailbox))).toBe(id)
  service.clock.jumpTo(service.clock.now() - days(40))
  expect(idOf(await next(service, mailbox))).toBe(id)
  // A clock correction ends no valid lease.
  service.clock.jumpTo(service.clock.now() - seconds(50))
  expectRefused408(await next(service, mailbox))
})

describe('the next message', () => {
  // Proves: list-18, mailbox-3
  test('is the oldest available one, complete, leased for 5 minutes', async () => {
    const mailbox = await service.newMailbox({ local_part: 'support' })
    const first = await service.deliver(mailbox, { subject: 'First', html: '<p>Hello</p>', strippedText: 'Hello' })
    const second = await service.deliver(mailbox, { subject: 'Second' })
    const answer = await next(service, mailbox)
    const detail = await service.api('GET', service.path(mailbox, `/messages/${first}`))
    expect({ status: answer.status, body: answer.body }).toEqual({
      status: 200,
      body: {
        data: at(detail.body, 'data'),
        lease_token: expect.stringMatching(/^[0-9a-f]{32}$/),
        lease_expires_at: new Date(service.clock.now() + minutes(5)).toISOString(),
      },
    })
    expect(at(answer.body, 'data')).toMatchObject({
      id: first,
      subject: 'First',
      text_body: 'Hello, mailbox.',
      text_body_stripped: 'Hello',
      html_body: '<p>Hello</p>',
      read_at: null,
    })
    expect(idOf(await next(service, mailbox))).toBe(second)
    expectRefused408(await next(service, mailbox))
    expect(await unread(service, mailbox)).toBe(2)
  })

  // Proves: mailbox-3, mailbox-4
  test('is available again when its lease expires, before later ones', async () => {
    const mailbox = await service.newMailbox()
    const ids = [await service.deliver(mailbox), await service.deliver(mailbox), await service.deliver(mailbox)]
    const held = await next(service, mailbox)
    service.clock.advance(minutes(1))
    await next(service, mailbox)
    service.clock.advance(minutes(4))
    // Only the first lease has expired; the message has no new lease, but its former holder has lost it.
    expectError(await end(service, mailbox, 'ack', ids[0], tokenOf(held)), 409, 'lease_lost')
    expect(idOf(await next(service, mailbox))).toBe(ids[0])
    expect(idOf(await next(service, mailbox))).toBe(ids[2])
    expectRefused408(await next(service, mailbox))
    expectError(await end(service, mailbox, 'ack', ids[0], tokenOf(held)), 409, 'lease_lost')
    expectError(await end(service, mailbox, 'nack', ids[0], tokenOf(held)), 409, 'lease_lost')
  })

  // Proves: mailbox-3
  test('is never leased to two of 40 concurrent consumers, and each message is leased to one', async () => {
    const mailbox = await service.newMailbox()
    const ids = await Promise.all(Array.from({ length: 30 }, () => service.deliver(mailbox)))
    const answers = await Promise.all(Array.from({ length: 40 }, () => next(service, mailbox)))
    const given = answers.filter(({ status }) => status === 200).map(idOf)
    expect(given.toSorted()).toEqual(ids.toSorted())
    expect(answers.filter(({ status }) => status === 408)).toHaveLength(10)
    expect(new Set(answers.filter(({ status }) => status === 200).map(tokenOf)).size).toBe(30)
  })

  test.each([
    ['61', 422],
    ['-1', 422],
    ['1.5', 422],
    ['x', 422],
    ['0', 408],
  ])('requested with a timeout of %s is a %d', async (timeout, status) => {
    const mailbox = await service.newMailbox()
    const answer = await service.api('GET', service.path(mailbox, `/messages/next?timeout=${timeout}`))
    expect(answer.status).toBe(status)
    if (status === 422) expectError(answer, 422, 'validation_failed', 'timeout')
  })

  test('is not leased by a HEAD request', async () => {
    const mailbox = await service.newMailbox()
    const id = await service.deliver(mailbox)
    const { status } = await fetch(`${service.url}${service.path(mailbox, '/messages/next?timeout=0')}`, {
      method: 'HEAD',
      headers: { authorization: `Bearer ${service.key}` },
    })
    expect(status).toBe(405)
    expect(idOf(await next(service, mailbox))).toBe(id)
  })

  test('is neither a sent message nor one of another mailbox', async () => {
    const [mailbox, other] = [await service.newMailbox(), await service.newMailbox()]
    const id = await service.deliver(other)
    expectRefused408(await next(service, mailbox))
    expect(idOf(await next(service, other))).toBe(id)
  })
})

describe('an ack', () => {
  // Proves: mailbox-4
  test('marks the message as read permanently; it may be repeated, and a nack after it is a 409', async () => {
    const mailbox = await service.newMailbox()
    const id = await service.deliver(mailbox)
    const token = tokenOf(await next(service, mailbox))
    const ackedAt = service.clock.now()
    expect((await end(service, mailbox, 'ack', id, token)).status).toBe(204)
    expect((await end(service, mailbox, 'ack', id, token)).status).toBe(204)
    expectError(await end(service, mailbox, 'nack', id, token), 409, 'lease_lost')
    service.clock.advance(minutes(6))
    expect((await end(service, mailbox, 'ack', id, token)).status).toBe(204)
    expectRefused408(await next(service, mailbox))
    expect(await unread(service, mailbox)).toBe(0)
    expect(at((await service.api('GET', service.path(mailbox, `/messages/${id}`))).body, 'data', 'read_at')).toBe(
      new Date(ackedAt).toISOString(),
    )
  })

  // Proves: mailbox-4
  test('or nack with an invalid token is a 409 and changes nothing', async () => {
    const mailbox = await service.newMailbox()
    const [id, other] = [await service.deliver(mailbox), await service.deliver(mailbox)]
    const token = tokenOf(await next(service, mailbox))
    const otherToken = tokenOf(await next(service, mailbox))
    for (const wrong of [otherToken, '', 'x', '0'.repeat(32), `${token}0`])
      for (const verb of ['ack', 'nack'] as const)
        expectError(await end(service, mailbox, verb, id, wrong), 409, 'lease_lost')
    expect(await unread(service, mailbox)).toBe(2)
    expect((await end(service, mailbox, 'ack', id, token)).status).toBe(204)
    expect((await end(service, mailbox, 'nack', other, otherToken)).status).toBe(204)
  })

  test('of an unknown message is a 404, of one that was never leased a 409', async () => {
    const [mailbox, other] = [await service.newMailbox(), await service.newMailbox()]
    const id = await service.deliver(mailbox)
    expectError(await end(service, mailbox, 'ack', id, '0'.repeat(32)), 409, 'lease_lost')
    const token = tokenOf(await next(service, mailbox))
    expectError(await end(service, other, 'ack', id, token), 404, 'message_not_found')
    await service.api('DELETE', service.path(mailbox, `/messages/${id}`))
    expectError(await end(service, mailbox, 'ack', id, token), 404, 'message_not_found')
  })
})

// Proves: mailbox-4
test('a nack lets the next consumer have the message immediately, with its own token', async () => {
  const mailbox = await service.newMailbox()
  const id = await service.deliver(mailbox)
  const first = tokenOf(await next(service, mailbox))
  expect((await end(service, mailbox, 'nack', id, first)).status).toBe(204)
  const again = await next(service, mailbox)
  expect(idOf(again)).toBe(id)
  expect(tokenOf(again)).not.toBe(first)
  expectError(await end(service, mailbox, 'ack', id, first), 409, 'lease_lost')
  expect((await end(service, mailbox, 'ack', id, tokenOf(again))).status).toBe(204)
})

describe('a waiting request', () => {
  // Proves: mailbox-3
  test.each([
    [60, 58],
    [30, 28],
    [4, 2],
    [3, 1.5],
    [1, 0.5],
  ])('with a timeout of %d s gets nothing until %d s, then 408', async (timeout, waits) => {
    const mailbox = await service.newMailbox()
    const { answer } = await waitForRequest(service, () => next(service, mailbox, timeout))
    service.clock.advance(seconds(waits) - 1)
    await settle(service)
    expect(Bun.peek.status(answer)).toBe('pending')
    service.clock.advance(1)
    expectRefused408(await answer)
  })

  test('without a timeout parameter has a timeout of 30 s', async () => {
    const mailbox = await service.newMailbox()
    const { answer } = await waitForRequest(service, () => service.api('GET', service.path(mailbox, '/messages/next')))
    service.clock.advance(seconds(28))
    expectRefused408(await answer)
  })

  // Proves: mailbox-3
  test('gets a message that arrives, over HTTP', async () => {
    const mailbox = await service.newMailbox()
    const before = service.clock.running
    const { answer } = await waitForRequest(service, () => next(service, mailbox, 30))
    const id = await service.deliver(mailbox)
    expect(idOf(await answer)).toBe(id)
    expect(service.clock.running).toBe(before)
  })

  test('is served in order of arrival', async () => {
    const { longPolls } = openLongPolls(service)
    const mailbox = await service.newMailbox()
    const order: number[] = []
    const waiters = Array.from({ length: 5 }, (_, index) => {
      const { outcome } = waiting(longPolls, service, mailbox)
      return outcome.then((result) => {
        order.push(index)
        return result
      })
    })
    for (let message = 0; message < 5; message++) {
      await service.deliver(mailbox)
      await eventually(() => order.length === message + 1)
    }
    expect(order).toEqual([0, 1, 2, 3, 4])
    const results = await Promise.all(waiters)
    expect(new Set(results.map((result) => ('messageId' in result ? result.messageId : 'none'))).size).toBe(5)
    expect(longPolls.size).toBe(0)
  })

  test('is served even if the message arrived just after the last query', async () => {
    const { longPolls } = openLongPolls(service)
    const mailbox = await service.newMailbox()
    await service.deliver(mailbox)
    await next(service, mailbox)
    const first = waiting(longPolls, service, mailbox, 0)
    // The query of the first request has ended, but the queue is still open.
    service.app.db.run('UPDATE mailbox_messages SET lease_expires_at = NULL')
    const second = waiting(longPolls, service, mailbox, 0)
    expect([await first.outcome, await second.outcome]).toEqual([
      { messageId: expect.any(Number) },
      { status: 408, code: 'no_message' },
    ])
  })

  test('gets a message that another consumer returned or held too long', async () => {
    const { longPolls } = openLongPolls(service)
    const mailbox = await service.newMailbox()
    const id = await service.deliver(mailbox)
    const held = await next(service, mailbox)
    const second = waiting(longPolls, service, mailbox, minutes(20))
    await settle(service)
    expect(Bun.peek.status(second.outcome)).toBe('pending')
    await nackMessage(service.app, service.actor, formatUuid(mailbox.uuid), id, String(tokenOf(held)))
    expect(await second.outcome).toEqual({ messageId: expect.any(Number) })
    const third = waiting(longPolls, service, mailbox, minutes(20))
    await settle(service)
    service.clock.advance(minutes(5) - 1)
    await settle(service)
    expect(Bun.peek.status(third.outcome)).toBe('pending')
    service.clock.advance(1)
    expect(await third.outcome).toEqual(await second.outcome)
  })

  // Proves: mailbox-3
  test('whose client disconnects gets nothing: the message goes unchanged to the next request', async () => {
    const mailbox = await service.newMailbox()
    const leaving = new AbortController()
    const before = service.clock.running
    const gone = fetch(`${service.url}${service.path(mailbox, '/messages/next')}`, {
      headers: { authorization: `Bearer ${service.key}` },
      signal: leaving.signal,
    }).catch(() => 'gone')
    await eventually(() => service.clock.running > before)
    leaving.abort()
    expect(await gone).toBe('gone')
    await eventually(() => service.clock.running === before)
    const id = await service.deliver(mailbox)
    await settle(service)
    expect(service.app.db.query('SELECT lease_token FROM mailbox_messages').get()).toEqual({ lease_token: null })
    expect(idOf(await next(service, mailbox))).toBe(id)
  })

  test('whose client disconnects while the lease is written leaves the message to the next request', async () => {
    const { longPolls } = openLongPolls(service)
    const mailbox = await service.newMailbox()
    const gone = waiting(longPolls, service, mailbox)
    const stays = waiting(longPolls, service, mailbox)
    await settle(service)
    const { commit, db } = service.app
    const write = commit.writeFromReserve.bind(commit)
    commit.writeFromReserve = (run) =>
      write((tx) => {
        const value = run(tx)
        // The lease is in the database, but its client has no response yet.
        if (db.query('SELECT 1 FROM mailbox_messages WHERE lease_token IS NOT NULL').get()) gone.leave()
        return value
      })
    await service.deliver(mailbox)
    expect([await gone.outcome, await stays.outcome]).toEqual([
      { status: 400, code: 'request_interrupted' },
      { messageId: expect.any(Number) },
    ])
    expect(longPolls.size).toBe(0)
  })

  test('gets 404 when the mailbox is deleted, and 503 when the service stops', async () => {
    const { longPolls, ending } = openLongPolls(service)
    const [mailbox, other] = [await service.newMailbox(), await service.newMailbox()]
    const first = waiting(longPolls, service, mailbox)
    await deleteMailbox(service.app, service.actor, formatUuid(mailbox.uuid))
    expect(await first.outcome).toEqual({ status: 404, code: 'mailbox_not_found' })
    const second = waiting(longPolls, service, other)
    ending.abort()
    expect(await second.outcome).toEqual({ status: 503, code: 'stopping' })
    expect(await waiting(longPolls, service, other).outcome).toEqual({ status: 503, code: 'stopping' })
  })

  test('does not delay the stop of the server', async () => {
    const mailbox = await service.newMailbox()
    const http = createHttp(service.opened)
    const { port } = http.listen('127.0.0.1', 0)
    const before = service.clock.running
    const answer = fetch(`http://127.0.0.1:${port}${service.path(mailbox, '/messages/next')}`, {
      headers: { authorization: `Bearer ${service.key}` },
    })
    await eventually(() => service.clock.running > before)
    await http.stop()
    expect((await answer).status).toBe(503)
  })

  test('gets 401 immediately when its key is deleted, and no message', async () => {
    const mailbox = await service.newMailbox()
    const made = (await service.api('POST', '/v1/api-keys', { name: 'soon gone' })).body
    const key = String(at(made, 'data', 'key'))
    const { answer } = await waitForRequest(service, () =>
      service.api('GET', service.path(mailbox, '/messages/next'), undefined, { key }),
    )
    await service.api('DELETE', `/v1/api-keys/${at(made, 'data', 'id')}`)
    expectError(await answer, 401, 'invalid_api_key')
    const id = await service.deliver(mailbox)
    expect(idOf(await next(service, mailbox))).toBe(id)
  })

  test('gets 401 immediately when its account is disabled, even with its key', async () => {
    const mailbox = await service.newMailbox()
    const { answer } = await waitForRequest(service, () => service.api('GET', service.path(mailbox, '/messages/next')))
    const { accountId } = service.actor
    service.app.db.run('UPDATE accounts SET disabled_at = 1 WHERE id = ?', [accountId])
    service.app.accessChanged.emit({ accountId })
    expectError(await answer, 401, 'invalid_api_key')
  })

  test('is one of at most 2,000 of an account; one more is a 429 until another ends', async () => {
    const { longPolls } = openLongPolls(service)
    const mailbox = await service.newMailbox()
    const all = Array.from({ length: MAX_WAITING_PER_ACCOUNT }, () => waiting(longPolls, service, mailbox))
    expect(await waiting(longPolls, service, mailbox).outcome).toEqual({ status: 429, code: 'too_many_waiting' })
    all[7]?.leave()
    const late = waiting(longPolls, service, mailbox)
    await settle(service)
    expect(longPolls.size).toBe(MAX_WAITING_PER_ACCOUNT)
    service.clock.advance(seconds(28))
    expect(await late.outcome).toEqual({ status: 408, code: 'no_message' })
    expect([longPolls.size, longPolls.mailboxCount]).toEqual([0, 0])
  })

  test('does not query the database while idle, and 100 messages take a few transactions', async () => {
    const { longPolls } = openLongPolls(service)
    const mailbox = await service.newMailbox()
    const all = Array.from({ length: 300 }, () => waiting(longPolls, service, mailbox))
    // The request that created the mailbox is written to the log after a second.
    service.clock.advance(seconds(1))
    await settle(service)
    let writes = 0
    const { commit } = service.app
    const write = commit.writeFromReserve.bind(commit)
    commit.writeFromReserve = (run) => {
      writes++
      return write(run)
    }
    service.clock.advance(seconds(20))
    await settle(service)
    const idle = writes
    // Their content is stored before, so that all are delivered in one group of commits.
    const received = await Promise.all(Array.from({ length: 100 }, () => createReceivedMessage(service.app)))
    await Promise.all(
      received.map((mail) =>
        commit.write((tx) => deliverToMailbox(service.app, tx, mailbox, mail, { classification: undefined })),
      ),
    )
    const served = await eventually(() => {
      const done = all.filter(({ outcome }) => Bun.peek.status(outcome) === 'fulfilled')
      return done.length === 100 && done
    })
    const ids = await Promise.all(served.map(({ outcome }) => outcome))
    expect(new Set(ids.map((id) => JSON.stringify(id))).size).toBe(100)
    // The three writes while idle come from `settle`.
    expect({ idle, served: served.length, inOrder: all.slice(0, 100).every((one) => served.includes(one)) }).toEqual({
      idle: 3,
      served: 100,
      inOrder: true,
    })
    // The deliveries are not counted, because they use `write`, which waits for disk space.
    expect(writes - idle).toBeLessThan(20)
  })
})

function expectRefused408(answer: ApiResponse): void {
  const refusal = { code: 'no_message', message: 'No message arrived in this time; ask again.', type: 'timeout' }
  expect({ status: answer.status, body: answer.body }).toEqual({
    status: 408,
    body: { error: { ...refusal, docs_url: null }, ...refusal, request_id: answer.headers.get('x-request-id') },
  })
}
