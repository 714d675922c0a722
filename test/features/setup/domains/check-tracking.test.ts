import { describe, expect, test } from 'bun:test'
import type { Check, CheckOutcome } from '#features/setup/domains/check-result.ts'
import { checkTracking } from '#features/setup/domains/check-tracking.ts'
import { randomBelow } from '#platform/ids.ts'
import { StubResolver } from '#protocols/dns/resolver.ts'
import { type Fault, startDnsServer, type Zone } from '#test/support/dns-server.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const HOST = 'links.example.com'
const TARGET = 'mail.tassis.test'
const ADVICE = `Publish a CNAME record at ${HOST} with the value ${TARGET}`
const OURS = { A: ['192.0.2.25'], AAAA: ['2001:db8::25'] }

/** Checks `HOST` in a zone with our host and the sender's domain. */
async function runCheck(changes: Zone): Promise<Check> {
  await using server = await startDnsServer({ [TARGET]: OURS, 'example.com': { A: ['192.0.2.80'] }, ...changes })
  using resolver = new StubResolver({
    servers: [server.address],
    clock: new ManualClock(),
    randomId: () => randomBelow(65_536),
    cacheEntries: 0,
  })
  return await checkTracking(resolver, { host: HOST, target: TARGET })
}

const verified = (detail: string): Check => ({ outcome: 'verified', verified: true, detail })
const failing = (outcome: CheckOutcome, detail: string): Check => ({ outcome, verified: false, detail })

describe('a tracking host', () => {
  // Proves: domain-27
  test('verifies by a CNAME to us, however it is written and even if our host does not resolve', async () => {
    const detail = `${HOST} is an alias (CNAME) of ${TARGET}.`
    expect(await runCheck({ [HOST]: { CNAME: TARGET } })).toEqual(verified(detail))
    expect(await runCheck({ [HOST]: { CNAME: 'MAIL.Tassis.TEST' } })).toEqual(verified(detail))
    expect(await runCheck({ [HOST]: { CNAME: TARGET }, [TARGET]: 'SERVFAIL' })).toEqual(verified(detail))
  })

  // Proves: domain-27
  test('verifies by a chain of CNAMEs that leads to our addresses', async () => {
    const zone = { [HOST]: { CNAME: 'a.example.net' }, 'a.example.net': { CNAME: 'b.example.net' } }
    expect(await runCheck({ ...zone, 'b.example.net': { CNAME: TARGET } })).toEqual(
      verified(
        `The CNAME at ${HOST} points to "a.example.net", but its addresses are those of ${TARGET}, so it leads to us. If the addresses of ${TARGET} change, those of ${HOST} must change too.`,
      ),
    )
  })

  // Proves: domain-27
  test('verifies without a CNAME when its addresses are ours, with advice to change them when ours change', async () => {
    const flattened = verified(
      `There is no CNAME at ${HOST}, but its addresses are those of ${TARGET}, so it leads to us. If the addresses of ${TARGET} change, those of ${HOST} must change too.`,
    )
    expect(await runCheck({ [HOST]: OURS })).toEqual(flattened)
    expect(await runCheck({ [HOST]: { A: OURS.A } })).toEqual(flattened)
  })

  test('is wrong when one of its addresses is not ours, because some readers would reach another server', async () => {
    for (const records of [
      { A: ['203.0.113.9'] },
      { A: [...OURS.A, '203.0.113.9'] },
      { ...OURS, AAAA: ['2001:db8::9'] },
    ])
      expect(await runCheck({ [HOST]: records })).toMatchObject({ outcome: 'wrong' })
    expect(await runCheck({ [HOST]: { A: ['203.0.113.9'] } })).toEqual(
      failing(
        'wrong',
        `There is no CNAME at ${HOST}, and its addresses (203.0.113.9) are not those of ${TARGET}. If the DNS provider puts a proxy in front of it, disable the proxy for this name. Remove the address records. ${ADVICE}`,
      ),
    )
  })

  test('is wrong when the CNAME points elsewhere, with a hint when the provider appended the domain', async () => {
    expect(await runCheck({ [HOST]: { CNAME: 'tracking.other.test' } })).toEqual(
      failing(
        'wrong',
        `The CNAME at ${HOST} points to "tracking.other.test" and not to ${TARGET}. Change its value to ${TARGET}`,
      ),
    )
    expect(await runCheck({ [HOST]: { CNAME: `${TARGET}.example.com` } })).toEqual(
      failing(
        'wrong',
        `The CNAME at ${HOST} points to "${TARGET}.example.com" and not to ${TARGET}. The DNS provider appended the domain to the value: enter ${TARGET}. with a dot at the end.`,
      ),
    )
  })

  test('is wrong when the CNAMEs form a loop', async () => {
    expect(await runCheck({ [HOST]: { CNAME: 'a.test' }, 'a.test': { CNAME: HOST } })).toEqual(
      failing('wrong', `The CNAME at ${HOST} points to "a.test" and not to ${TARGET}. Change its value to ${TARGET}`),
    )
  })

  test('is missing when there is no record, with the record to publish', async () => {
    const detail = `There is no CNAME record at ${HOST}. ${ADVICE}`
    expect(await runCheck({})).toEqual(failing('missing', detail))
    expect(await runCheck({ [HOST]: { TXT: ['x'] } })).toEqual(failing('missing', detail))
  })

  test('is missing, with a hint, when the provider appended the domain to the name', async () => {
    expect(await runCheck({ [`${HOST}.example.com`]: { CNAME: TARGET } })).toEqual(
      failing(
        'missing',
        `There is no CNAME record at ${HOST}. It was found at ${HOST}.example.com instead: the DNS provider appends example.com automatically, so enter only links as the name of the record. ${ADVICE}`,
      ),
    )
  })

  test.each<[Fault]>([['SERVFAIL'], ['REFUSED'], ['MALFORMED']])(
    'is unknown, never missing or wrong, when a look-up ends in %s',
    async (fault) => {
      const zones: Zone[] = [
        { [HOST]: fault },
        { [HOST]: { CNAME: 'a.test' }, 'a.test': fault },
        { [HOST]: { A: fault } },
        { [HOST]: { A: OURS.A, AAAA: fault } },
        { [HOST]: { A: ['203.0.113.9'] }, [TARGET]: fault },
      ]
      for (const zone of zones) {
        expect(await runCheck(zone)).toMatchObject({
          outcome: 'unknown',
          detail: expect.stringContaining('could not be looked up'),
        })
      }
    },
  )
})
