/**
 * @module Runs the scripts of docs/deployment.md as a machine would, with paths below a temporary folder and the tests'
 * own user as owner.
 */
import { expect, test } from 'bun:test'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const deployment = readFileSync(`${import.meta.dir}/../docs/deployment.md`, 'utf8')
const scripts = [...deployment.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, text = '']) => text)

const CADDY = 'var/lib/caddy/.local/share/caddy/certificates/acme-v02.api.letsencrypt.org-directory/mail.example.com'
const LINEAGES = 'etc/letsencrypt/live'

/**
 * Runs the script that contains `place`; returns the files at the service's certificate path, with their modes.
 * @param source folder of the certificate, which certbot passes to its script
 */
function runHook(place: string, source: string): (string | undefined)[] {
  const root = mkdtempSync(join(tmpdir(), 'tassis-hook-'))
  const put = (path: string, text: string) => {
    mkdirSync(join(root, path, '..'), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  try {
    for (const name of ['fullchain.pem', 'mail.example.com.crt']) put(join(source, name), 'chain')
    for (const name of ['privkey.pem', 'mail.example.com.key']) put(join(source, name), 'key')
    put('var/lib/tassis/tassis.db', '')
    const script = scripts.find((text) => text.includes(place)) ?? ''
    // Another script of the document creates the user.
    const owned = script.replaceAll('--owner tassis --group tassis ', '')
    put('hook', owned.replaceAll(/(?<![!\w])\/(?=var|etc)/g, `${root}/`))
    chmodSync(join(root, 'hook'), 0o755)
    const env = { PATH: process.env['PATH'] ?? '', RENEWED_LINEAGE: join(root, source) }
    expect(Bun.spawnSync([join(root, 'hook')], { env, stderr: 'inherit' }).exitCode).toBe(0)
    return ['fullchain.pem', 'privkey.pem'].map((name) => {
      const path = join(root, 'var/lib/tassis/tls', name)
      return existsSync(path) ? `${readFileSync(path, 'utf8')} ${(statSync(path).mode & 0o777).toString(8)}` : undefined
    })
  } finally {
    rmSync(root, { recursive: true })
  }
}

test("cron copies Caddy's certificate for mail, and certbot's renewal copies its own", () => {
  const copied = ['chain 600', 'key 600']
  expect(runHook('/etc/cron.daily/', CADDY)).toEqual(copied)
  expect(runHook('/renewal-hooks/deploy/', `${LINEAGES}/mail.example.com`)).toEqual(copied)
})

test('the certificate of a tracking domain is not used for mail', () => {
  expect(runHook('/renewal-hooks/deploy/', `${LINEAGES}/links.example.com`)).toEqual([undefined, undefined])
})
