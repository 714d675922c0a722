import { expect, test } from 'bun:test'
import { startService } from '#app/service.ts'
import { loadConfig } from '#app/settings.ts'
import { createDataFolder } from './process.ts'

/** The error of a start with these outgoing addresses; it ends before anything is opened. */
async function errorOf(sources: string, settings: Readonly<Record<string, string>> = {}): Promise<unknown> {
  using data = createDataFolder()
  const { config } = loadConfig({
    ...data.settings,
    TASSIS_DELIVERY: 'direct',
    TASSIS_OUTBOUND_IPS: sources,
    ...settings,
  })
  return await startService(config).then(
    (service) => service.stop().then(() => 'started'),
    (error: Error) => error.message,
  )
}

test('an outgoing address is that of this machine, or of a proxy that is named', async () => {
  expect(await errorOf('192.0.2.9')).toMatch(
    /^TASSIS_OUTBOUND_IPS has 192\.0\.2\.9, which is not .* or name the proxy that has it: 192\.0\.2\.9 via socks5:\/\/host:1080\.$/,
  )
  expect(await errorOf('192.0.2.9 via socks5://127.0.0.1:9')).toBe('started')
})

test('no mail leaves past the proxies because they have no address of its family', async () => {
  const via = 'via socks5://127.0.0.1:9'
  expect(await errorOf(`192.0.2.9 ${via}`, { TASSIS_IPV6: 'true' })).toEndWith(
    'mail to hosts with IPv6 addresses would leave from this machine; set TASSIS_IPV6=false or add an IPv6 address.',
  )
  expect(await errorOf(`2001:db8::9 ${via}`)).toEndWith('add an IPv4 address.')
  expect(await errorOf(`192.0.2.9 ${via}, 2001:db8::9 ${via}`, { TASSIS_IPV6: 'true' })).toBe('started')
})
