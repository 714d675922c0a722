import { afterEach, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { findPortHolder } from '#platform/net/port-holder.ts'

setDefaultTimeout(60_000)

const folder = mkdtempSync(join(tmpdir(), 'tassis-holder-'))
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** Starts a program under a path of its own; it listens and prints its port. */
async function startListening(path: string, host: string) {
  const program = join(folder, path)
  mkdirSync(dirname(program), { recursive: true })
  symlinkSync(process.execPath, program)
  const code = `console.log(Bun.listen({ hostname: '${host}', port: 0, socket: { data() {} } }).port)`
  const child = Bun.spawn([program, '-e', code], { stdout: 'pipe' })
  const { value } = await child.stdout.getReader().read()
  return {
    port: Number(Buffer.from(value ?? []).toString()),
    pid: child.pid,
    async [Symbol.asyncDispose]() {
      child.kill()
      await child.exited
    },
  }
}

test.each([
  ['postfix/sbin/master', '127.0.0.1', 'master', 'systemctl disable --now postfix'],
  ['usr/sbin/exim4', '0.0.0.0', 'exim4', 'systemctl disable --now exim4'],
  ['usr/sbin/exim', '::', 'exim', 'systemctl disable --now exim4'],
  ['usr/sbin/sendmail-mta', '127.0.0.1', 'sendmail-mta', 'systemctl disable --now sendmail'],
  ['usr/sbin/smtpd', '127.0.0.1', 'smtpd', 'systemctl disable --now opensmtpd'],
])('%s at %s is named with the command that disables it', async (path, host, name, command) => {
  await using program = await startListening(path, host)
  for (const own of ['127.0.0.1', '0.0.0.0', '::'])
    expect(findPortHolder({ host: own, port: program.port })).toEqual({
      who: `: ${name} (pid ${program.pid})`,
      remedy: `stop it (\`${command}\`)`,
    })
})

test('a proxy of containers is not stopped: the container is shown', async () => {
  await using program = await startListening('usr/bin/docker-proxy', '127.0.0.1')
  expect(findPortHolder({ host: '127.0.0.1', port: program.port }).remedy).toBe(
    `stop it (\`docker ps --filter publish=${program.port}\`)`,
  )
})

test('any other program is named with its pid', async () => {
  await using program = await startListening('any', '127.0.0.1')
  const holder = findPortHolder({ host: '127.0.0.1', port: program.port })
  expect(holder.who).toBe(`: any (pid ${program.pid})`)
  expect(holder.remedy).toMatch(/^stop it \(`(?:kill \d+|systemctl disable --now [\w.-]+)`\)$/)
  // It holds no other address of the machine.
  expect(findPortHolder({ host: '127.0.0.2', port: program.port }).who).toBe('')
})

test('a port that nothing holds any more is looked up by hand', async () => {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0
  await new Promise((resolve) => server.close(resolve))
  expect(findPortHolder({ host: '127.0.0.1', port })).toEqual({
    who: '',
    remedy: `see which with \`ss -ltnp sport = :${port}\` as root, and stop it`,
  })
})
