import { expect, test } from 'bun:test'
import { deleteMailbox, type Mailbox, removeDeletedMailboxes } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import { formatUuid } from '#platform/ids.ts'
import { minutes } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createMailboxApi } from '#test/support/mailboxes.ts'

/** The same numbers for the same seed (Park and Miller), so that failures can be repeated. */
function createRandom(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state * 48_271) % 2_147_483_647
    return state % below
  }
}

test.each([1, 2, 3])('after many random operations on mailboxes all counts equal a recount (seed %d)', async (seed) => {
  await using service = await createMailboxApi()
  const { app, api, actor, path, deliver } = service
  const random = createRandom(seed)
  const mailboxes: Mailbox[] = [await service.newMailbox(), await service.newMailbox()]
  const messages: { mailbox: Mailbox; id: string }[] = []
  const leases: { mailbox: Mailbox; id: string; token: string }[] = []
  const pick = <T>(items: readonly T[]): T | undefined => items[random(items.length || 1)]
  for (let step = 0; step < 250; step++) {
    const mailbox = pick(mailboxes)
    if (!mailbox) throw new Error('no mailbox')
    const message = pick(messages)
    const lease = pick(leases)
    const what = random(100)
    if (what < 40) {
      const from = `a${random(5)}@example.com`
      const references = random(2) === 0 ? [`<${random(40)}@x>`] : []
      const id = await deliver(mailbox, { fromAddress: from, messageId: `<${random(40)}@x>`, references })
      messages.push({ mailbox, id })
    } else if (what < 60) {
      const { status, body } = await api('GET', path(mailbox, '/messages/next?timeout=0'))
      if (status === 200)
        leases.push({ mailbox, id: String(at(body, 'data', 'id')), token: String(at(body, 'lease_token')) })
    } else if (what < 80 && lease) {
      const verb = random(3) === 0 ? 'nack' : 'ack'
      await api('POST', path(lease.mailbox, `/messages/${lease.id}/${verb}`), { lease_token: lease.token })
    } else if (what < 92 && message) await api('DELETE', path(message.mailbox, `/messages/${message.id}`))
    else if (what < 96) service.clock.advance(minutes(2))
    else if (what < 98) {
      await deleteMailbox(app, actor, formatUuid(mailbox.uuid))
      mailboxes.splice(mailboxes.indexOf(mailbox), 1, await service.newMailbox())
    } else await removeDeletedMailboxes(app)
  }
  expectBalanced(service)
  await removeDeletedMailboxes(app)
  expectBalanced(service)
  expect(app.db.query('SELECT COUNT(*) AS n FROM agent_mailboxes').get()).toEqual({ n: 2 })
})
