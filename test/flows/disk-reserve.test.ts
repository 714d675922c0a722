/**
 * @module The disk reserve, on a disk that reports little space and on a small real one that is filled. Accepted mail
 * is delivered, data can be deleted, users can sign in; everything else is rejected.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MiB } from '#platform/units.ts'
import { type ApiResponse, at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { createTestDisk } from '#test/support/disk.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { createEmailApi, type EmailApi, expectError } from '#test/support/email-api.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { connectSmtp } from '#test/support/smtp-client.ts'

const idOf = ({ body }: ApiResponse): string => String(at(body, 'data', 'id'))

describe('on a low disk', () => {
  let isLow = false
  let service: EmailApi
  const createdIds = new Map<string, string>()

  /** One resource of each kind, by the path that created it, with a contact and a suppression of `{name}@x.test`. */
  const makeAll = async (name: string): Promise<Map<string, string>> => {
    const { api } = service
    const ids = new Map<string, string>()
    const make = async (path: string, body: object) => ids.set(path, idOf(await api('POST', path, body)))
    await make('/v1/contact-lists', { name })
    await make('/v1/templates', { alias: name, name, subject: 'S', text_body: 'T' })
    await make('/v1/webhooks', { url: 'https://127.0.0.1/hook', events: ['sent'] })
    await make('/v1/agent-mailboxes', { display_name: name })
    await make('/v1/api-keys', { name, scopes: ['emails:send'] })
    const list = ids.get('/v1/contact-lists')
    await make('/v1/newsletters', { list_id: list, subject: 'N', from_address: 'ada@sender.test', text_body: 'N' })
    await make('/v1/signup-forms', { list_id: list, title: 'Form' })
    await api('POST', `/v1/contact-lists/${list}/contacts`, { email: `${name}@x.test` })
    await api('POST', '/v1/suppressions', { email_address: `${name}@x.test`, reason: 'manual' })
    return ids
  }

  beforeAll(async () => {
    service = await createEmailApi({
      disk: createTestDisk(
        () => isLow,
        () => !isLow,
      ),
      runsTasks: true,
      receives: true,
    })
    service.app.db.run('UPDATE domains SET inbound_enabled = 1')
    for (const [path, id] of await makeAll('one')) createdIds.set(path, id)
    createdIds.set(
      'email',
      (await service.accepted({ send_at: new Date(service.clock.now() + 3_600_000).toISOString() })).id,
    )
    isLow = true
  })
  afterAll(() => service[Symbol.asyncDispose]())

  const bodies: readonly (readonly [method: 'POST' | 'PATCH' | 'PUT', path: string, body: object])[] = [
    ['POST', '/v1/emails', { from: 'ada@sender.test', to: 'bob@x.test', subject: 'S', text_body: 'T' }],
    ['POST', '/v1/contact-lists', { name: 'Other' }],
    ['POST', '/v1/contact-lists/{/v1/contact-lists}/contacts', { email: 'new@x.test' }],
    ['POST', '/v1/contact-lists/{/v1/contact-lists}/contacts', { contacts: [{ email: 'new@x.test' }] }],
    ['PATCH', '/v1/contact-lists/{/v1/contact-lists}/contacts/one@x.test', { metadata: { a: 'b' } }],
    ['POST', '/v1/templates', { alias: 'u', name: 'U', subject: 'S', text_body: 'T' }],
    ['PUT', '/v1/templates/{/v1/templates}', { text_body: 'Other' }],
    ['POST', '/v1/domains', { domain: 'new.test' }],
    ['POST', '/v1/webhooks', { url: 'https://127.0.0.1/other', events: ['sent'] }],
    ['POST', '/v1/api-keys', { name: 'New', scopes: ['emails:send'] }],
    ['POST', '/v1/suppressions', { email_address: 'new@x.test', reason: 'manual' }],
    ['POST', '/v1/agent-mailboxes', { display_name: 'New' }],
    ['POST', '/v1/streams', { slug: 'new', name: 'New' }],
  ]
  const filled = (path: string, ids: ReadonlyMap<string, string> = createdIds) =>
    path.replace(/\{(.*?)\}/g, (_, key: string) => ids.get(key) ?? '')

  // Proves: storage-5
  test.each(bodies)('%s %s is a 507 and stores nothing', async (method, path, body) => {
    const before = service.stored()
    expectError(await service.api(method, filled(path), body), 507, 'insufficient_storage')
    expect(service.stored()).toEqual(before)
  })

  test('a form accepts no submission', async () => {
    const { body } = await service.api('GET', `/v1/signup-forms/${createdIds.get('/v1/signup-forms')}`)
    const form = `${service.url}/subscribe/${String(at(body, 'data', 'slug'))}`
    const answer = await fetch(form, { method: 'POST', body: new URLSearchParams({ email: 'visitor@x.test' }) })
    expect(answer.status).toBe(507)
  })

  test('incoming mail is deferred', async () => {
    await using client = await connectSmtp(service.inbound?.listener?.port ?? 0)
    await client.reply()
    await client.say('EHLO x.test')
    await client.say('MAIL FROM:<a@x.test>')
    expect(await client.say('RCPT TO:<anybody@sender.test>')).toStartWith('452 4.3.1 ')
  })

  test('the service reports why it is not ready, and its database still answers', async () => {
    const { status, body } = await service.api('GET', '/readyz', undefined, { key: null })
    expect([status, (at(body, 'details') as { field: string }[]).map(({ field }) => field)]).toEqual([503, ['disk']])
  })

  // Proves: storage-5
  test('everything can be deleted', async () => {
    isLow = false
    const ids = await makeAll('other')
    isLow = true
    const paths = [
      '/v1/contact-lists/{/v1/contact-lists}/contacts/other@x.test',
      '/v1/suppressions/other@x.test',
      '/v1/newsletters/{/v1/newsletters}',
      '/v1/signup-forms/{/v1/signup-forms}',
      '/v1/contact-lists/{/v1/contact-lists}',
      '/v1/templates/{/v1/templates}',
      '/v1/webhooks/{/v1/webhooks}',
      '/v1/agent-mailboxes/{/v1/agent-mailboxes}',
      '/v1/api-keys/{/v1/api-keys}',
    ]
    const statuses: [string, number][] = []
    for (const path of paths) statuses.push([path, (await service.api('DELETE', filled(path, ids))).status])
    expect(statuses).toEqual(paths.map((path) => [path, 204]))
  })

  test('a scheduled email can be cancelled', async () => {
    expect((await service.api('POST', `/v1/emails/${createdIds.get('email')}/cancel`)).status).toBeLessThan(300)
  })
})

/** A file system of its own; undefined if this user cannot mount one. */
function mountSmallDisk(size: string): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-disk-'))
  if (Bun.which('mount') && Bun.spawnSync(['mount', '-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', folder]).success)
    return folder
  rmSync(folder, { recursive: true })
  return undefined
}

function unmount(folder: string): void {
  Bun.spawnSync(['umount', '-l', folder])
  rmSync(folder, { recursive: true, force: true })
}

const disk = mountSmallDisk('96m')
afterAll(() => disk && unmount(disk))

// Proves: storage-5
test.skipIf(disk === undefined)(
  'contacts fill a real disk up to the reserve and no further, and mail accepted before is delivered',
  async () => {
    const dataDir = disk ?? ''
    const reserve = 24 * MiB
    await using server = await startScriptedSmtp({})
    const dns = await startDnsServer({ 'receiver.test': { A: ['127.0.0.1'] } })
    await using service = await createEmailApi({
      dataDir,
      delivers: true,
      settings: {
        TASSIS_MIN_FREE_DISK: String(reserve),
        TASSIS_SMTP_PORT: String(server.port),
        TASSIS_DNS_SERVERS: dns.address,
      },
    })
    const { api, app, clock } = service
    const inAnHour = new Date(clock.now() + 3_600_000).toISOString()
    const accepted = await Promise.all(
      Array.from({ length: 50 }, (_, i) => service.accepted({ to: `bob${i}@receiver.test`, send_at: inAnHour })),
    )
    const list = idOf(await api('POST', '/v1/contact-lists', { name: 'List' }))
    let least = Number.POSITIVE_INFINITY
    const look = () => {
      const { bavail, bsize } = statfsSync(dataDir)
      least = Math.min(least, bavail * bsize)
    }
    const metadata = { note: 'x'.repeat(10_000) }
    let added = 0
    const flood = async (worker: number): Promise<void> => {
      for (let round = 0, refusals = 0; refusals < 5; round++) {
        const contacts = Array.from({ length: 100 }, (_, i) => ({ email: `c${worker}-${round}-${i}@x.test`, metadata }))
        const { status, body } = await api('POST', `/v1/contact-lists/${list}/contacts`, { contacts })
        look()
        clock.advance(50)
        if (status === 507) {
          expect(at(body, 'code')).toBe('insufficient_storage')
          refusals++
          // Emptying the databases' logs frees their space.
          await app.commit.checkpoint()
          clock.advance(1000)
          continue
        }
        refusals = 0
        added += contacts.length
      }
    }
    await Promise.all([0, 1, 2, 3].map(flood))
    look()
    expect(added).toBeGreaterThan(500)
    expect(least).toBeGreaterThanOrEqual(reserve)

    clock.advance(3_600_000)
    await eventually(async () => {
      const details = await Promise.all(accepted.map(({ id }) => service.detail(id)))
      return details.every(({ status }) => status === 'sent')
    }, 110_000)
    expect((await api('DELETE', `/v1/contact-lists/${list}`)).status).toBe(204)
    look()
    expect(least).toBeGreaterThan(reserve / 2)
    await dns.close()
  },
  240_000,
)
