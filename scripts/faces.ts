/**
 * @module Which faces of the service have which capability: docs/faces.md, from the methods of the client and from where
 * commands, dashboard and tools for language models call them. `scripts/reference.ts` writes it.
 */
import { Glob } from 'bun'
import { listMethods, readDescriptions } from './client.ts'

const ROOT = new URL('../', import.meta.url).pathname

/** Where each face calls the client. */
const FACES = {
  command: 'src/app/cli/*.ts',
  dashboard: 'src/dashboard/**/*.{ts,tsx}',
  tool: 'src/features/drop-in/mcp/*.ts',
} as const

export interface Capability {
  /** Such as `emails.cancel`. */
  readonly method: string
  readonly summary: string
  readonly faces: ReadonlySet<keyof typeof FACES>
}

/** Every method of the client with the faces that call it. */
export async function readCapabilities(): Promise<Capability[]> {
  const sources = Object.entries(FACES).map(([face, pattern]) => ({
    face: face as keyof typeof FACES,
    files: [...new Glob(pattern).scanSync(ROOT)].map((file) => Bun.file(ROOT + file).text()),
  }))
  const texts = await Promise.all(
    sources.map(async ({ face, files }) => ({ face, text: (await Promise.all(files)).join('\n') })),
  )
  const { api, operators } = await readDescriptions()
  return [...listMethods(api), ...listMethods(operators)].map(({ resource, name, operation }) => {
    const call = new RegExp(`\\b${resource}\\s*\\.\\s*${name}\\b`)
    // `operations[verb]`, with the verbs in quotes.
    const isCalled = (text: string) => call.test(text) || (text.includes(`${resource}[`) && text.includes(`'${name}'`))
    const faces = texts.filter(({ text }) => isCalled(text)).map(({ face }) => face)
    return { method: `${resource}.${name}`, summary: operation.summary ?? '', faces: new Set(faces) }
  })
}

/** Formats docs/faces.md. */
export async function formatFacesPage(): Promise<string> {
  const capabilities = await readCapabilities()
  const mark = (has: boolean): string => (has ? '✓' : '')
  const rows = capabilities.map(
    ({ method, summary, faces }) =>
      `| ${summary} | \`${method}\` | ${mark(faces.has('command'))} | ${mark(faces.has('dashboard'))} | ${mark(faces.has('tool'))} |`,
  )
  return `# What can be done where

<!-- Written by \`bun scripts/reference.ts\`; do not edit by hand. -->

Every capability is a route of the API and a method of the [client](clients.md); \`tassis api\` calls any route. This table
shows which also have a [command](commands.md), a place in the [dashboard](dashboard.md) and a tool for
[language models](mcp.md).

| Capability | Method | Command | Dashboard | Tool |
|---|---|---|---|---|
${rows.join('\n').replaceAll('|  |', '| |').replaceAll('|  |', '| |')}
`
}
