/** @module DNS_KILLS=50 kills more often. */
import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { publishDomain } from '#features/setup/dns-publish/publish.ts'
import { RFC2136 } from '#features/setup/dns-publish/rfc2136.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { formatUuid } from '#platform/ids.ts'
import { createTestAccount, createTestApp } from '#test/support/app.ts'
import { areDaemonsAvailable, SECRET, startDaemon } from '#test/support/dns-daemons.ts'
import { createFolder } from '#test/support/folder.ts'

const KILLS = Number(process.env['DNS_KILLS'] ?? 5)
/** Longer than publishing takes. */
const MAX_DELAY_MS = 600

describe.skipIf(!areDaemonsAvailable())('a killed process', () => {
  test('leaves a zone that the next run completes, with exactly the expected records', async () => {
    using folder = createFolder()
    await using daemon = await startDaemon('bind', { zone: 'zone.test' })
    const settings = { TASSIS_DNS_SERVERS: daemon.address, TASSIS_OUTBOUND_IPS: '192.0.2.25' }
    const ids: string[] = []
    const prepared = await createTestApp({ dataDir: folder.path, settings })
    const actor = await createTestAccount(prepared.app)
    for (let i = 0; i < KILLS; i++)
      ids.push(formatUuid((await createDomain(prepared.app, actor, `d${i}.zone.test`)).domain.uuid))
    await prepared[Symbol.asyncDispose]()
    const counts: number[] = []
    for (const [i, id] of ids.entries()) {
      const args = [process.execPath, join(import.meta.dir, 'kill-child.ts'), folder.path, daemon.address, id]
      await using child = Bun.spawn(args, { stdout: 'pipe', stderr: 'inherit' })
      for await (const chunk of child.stdout) if (Buffer.from(chunk).includes('ready')) break
      await Bun.sleep(Math.random() * MAX_DELAY_MS)
      child.kill('SIGKILL')
      await child.exited
      const own = async () => (await daemon.dump()).filter((line) => line.split(' ')[0]?.endsWith(`d${i}.zone.test`))
      counts.push((await own()).length)
      await using again = await createTestApp({ dataDir: folder.path, settings })
      const credentials = { server: daemon.address, key_name: 'full', secret: SECRET }
      const done = await publishDomain(again.app, actor, id, { provider: 'rfc2136', credentials }, [RFC2136])
      expect(done.summary).toEndWith(`DNS shows all records of d${i}.zone.test.`)
      const expected = done.records.flatMap(({ name, type, after }) =>
        after.map((value) => `${name} ${type} ${type === 'TXT' ? JSON.stringify(value) : value}`),
      )
      expect((await own()).map((line) => line.replaceAll('" "', ''))).toEqual(expected.sort())
    }
    if (KILLS >= 20) expect(counts.filter((count) => count > 0 && count < 5).length).toBeGreaterThan(KILLS / 10)
    console.log(`records in the zone at the ${KILLS} kills: ${counts.join(' ')}`)
  }, 120_000)
})
