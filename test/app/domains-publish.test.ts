import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { areDaemonsAvailable, SECRET, startDaemon } from '#test/support/dns-daemons.ts'
import { createDataFolder, runTassis, setUpAccount } from './process.ts'

// Processes start slowly on a busy machine.
setDefaultTimeout(300_000)

describe.skipIf(!areDaemonsAvailable())('tassis domains publish', () => {
  test('takes an unverified domain to green by one command, and says what is wrong', async () => {
    using data = createDataFolder()
    await using daemon = await startDaemon('bind', { zone: 'sender.test', records: ['ns1 TXT "stays"'] })
    const settings = {
      ...data.settings,
      TASSIS_DNS_SERVERS: daemon.address,
      TASSIS_OUTBOUND_IPS: '192.0.2.25',
      TASSIS_ALLOW_PRIVATE_NETWORKS: 'false',
    }
    await setUpAccount(settings)
    const secretFile = join(data.path, 'tsig')
    writeFileSync(secretFile, `${SECRET}\n`)
    const publish = (...args: string[]) => runTassis(['domains', 'publish', 'sender.test', ...args], settings)
    const fields = ['--provider', 'rfc2136', '--field', `server=${daemon.address}`, '--field', 'key_name=full']
    const secret = ['--field', `secret=@${secretFile}`]

    expect((await publish()).stderr).toContain('Name the DNS provider with --provider: ')
    const incomplete = await publish(...fields)
    expect([incomplete.exitCode, incomplete.stderr]).toEqual([2, expect.stringContaining('needs --field secret=@FILE')])
    expect((await publish(...fields, '--field', 'zone')).stderr).not.toContain('There is no field')
    expect((await publish(...fields, '--field', `secret=${SECRET}`)).stderr).toContain('can read the command line')
    writeFileSync(join(data.path, 'other'), Buffer.alloc(32).toString('base64'))
    const wrong = await publish(...fields, '--field', `secret=@${join(data.path, 'other')}`)
    expect([wrong.exitCode, wrong.stderr]).toEqual([1, expect.stringContaining('with another secret (BADSIG)')])

    const before = await daemon.dump()
    const plan = await publish(...fields, ...secret, '--dry-run')
    expect(plan.stdout).toMatch(/^create +spf +TXT +send\.sender\.test$/m)
    expect(plan.stdout).toContain('  + v=spf1 ip4:192.0.2.25 -all')
    const unasked = await publish(...fields, ...secret)
    expect([unasked.exitCode, unasked.stderr]).toEqual([1, expect.stringContaining('Add --yes to publish them')])
    expect(await daemon.dump()).toEqual(before)

    const done = await publish(...fields, ...secret, '--yes')
    expect(done.exitCode).toBe(0)
    expect(done.stdout.match(/^ok {2}\S+/gm)).toHaveLength(5)
    expect(done.stdout).toContain('DNS shows all records of sender.test.')
    // With the kept credentials; the records of others are still there.
    const again = await publish()
    expect([again.exitCode, again.stdout]).toEqual([0, expect.stringContaining('5 already right.')])
    expect(await daemon.dump()).toEqual(expect.arrayContaining(before))
  })
})
