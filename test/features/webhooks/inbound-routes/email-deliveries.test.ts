import { describe, expect, test } from 'bun:test'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { expectError } from '#test/support/email-api.ts'
import { INBOUND, type Json, startRouteService } from './fixture.ts'

describe('the deliveries of an inbound email', () => {
  // Proves: inbound-36
  test('are those of its route for this email alone, with replays, newest first', async () => {
    await using service = await startRouteService()
    const { api, addRoute, arrive, history } = service
    const route = await addRoute()
    await addRoute({ pattern: 'stored', webhook_url: null })
    const { id } = await arrive('support', { subject: 'Help' })
    await arrive('support', { subject: 'Another' })
    const unrouted = await arrive('nobody')
    const stored = await arrive('stored')
    const list = async (email: string, query = '') =>
      (await api('GET', `/v1/inbound/${email}/deliveries${query}`)).body as { data: Json[]; pagination: Json }
    await eventually(async () => (await history(route.id)).length === 2 || undefined)
    const first = await eventually(async () => (await list(id)).data.find(({ status }) => status === 'delivered'))
    expect(first).toMatchObject({ route_id: route.id, inbound_email_id: id, event: 'email.inbound', attempts: 1 })

    const replay = await api('POST', `/v1/inbound-routes/${route.id}/deliveries/${first['id']}/replay`)
    expect(replay.status).toBe(202)
    const { data, pagination } = await list(id)
    expect(data.map((delivery) => delivery['id'])).toEqual([at(replay.body, 'data', 'id'), first['id']])
    expect(pagination).toEqual({ page: 1, per_page: 25, total: 2, total_pages: 1 })
    expect((await list(id, '?per_page=1&page=2')).data.map((delivery) => delivery['id'])).toEqual([first['id']])

    for (const other of [unrouted, stored]) expect((await list(other.id)).data).toEqual([])
    await api('DELETE', `/v1/inbound-routes/${route.id}`)
    expect((await list(id)).data).toEqual([])
  })
})

describe('a tested address', () => {
  // Proves: inbound-37
  test('names the mailbox or route that would get its mail', async () => {
    await using service = await startRouteService({ settings: { TASSIS_INBOUND_ADDR: '127.0.0.1:2525' } })
    const { api, addRoute, domainId, put } = service
    const match = async (address: string) =>
      at((await api('GET', `/v1/inbound-routes/match?address=${encodeURIComponent(address)}`)).body, 'data') as Json
    const found = { is_accepted: true, rejection: null, domain_id: domainId, mailbox_id: null, route_id: null }
    expect(await match(`support@${INBOUND}`)).toEqual({ ...found, address: `support@${INBOUND}` })
    const support = await addRoute()
    const all = await addRoute({ pattern: '', match_type: 'catch_all' })
    const mailbox = await api('POST', '/v1/agent-mailboxes', { local_part: 'agent', domain_id: domainId })
    expect(await match(`Support+7@${INBOUND.toUpperCase()}`)).toMatchObject({ ...found, route_id: support.id })
    expect(await match(`anything@${INBOUND}`)).toMatchObject({ ...found, route_id: all.id })
    expect(await match(`agent+1@${INBOUND}`)).toMatchObject({
      ...found,
      mailbox_id: at(mailbox.body, 'data', 'id') as string,
    })
    await put(support.id, { is_active: false })
    expect(await match(`support@${INBOUND}`)).toMatchObject({ ...found, route_id: all.id })

    const other = { ...found, is_accepted: false }
    await api('PATCH', `/v1/domains/${domainId}`, { inbound_enabled: false })
    expect(await match(`x@${INBOUND}`)).toMatchObject({ ...other, rejection: 'inbound_disabled', route_id: all.id })
    service.app.db.run('UPDATE domains SET verified_at = NULL')
    expect(await match(`x@${INBOUND}`)).toMatchObject({ ...other, rejection: 'domain_not_verified', route_id: all.id })
    expect(await match('x@elsewhere.test')).toMatchObject({ ...other, rejection: 'unknown_domain', domain_id: null })
    for (const address of ['', 'support', 'a@b@c', 'x'.repeat(400)])
      expectError(
        await api('GET', `/v1/inbound-routes/match?address=${encodeURIComponent(address)}`),
        422,
        'validation_failed',
        'address',
      )
  })

  // Proves: inbound-37
  test('is not accepted while the server does not listen for mail', async () => {
    await using service = await startRouteService()
    const { body } = await service.api('GET', `/v1/inbound-routes/match?address=x@${INBOUND}`)
    expect(at(body, 'data')).toMatchObject({ is_accepted: false, rejection: 'server_not_receiving' })
  })
})
