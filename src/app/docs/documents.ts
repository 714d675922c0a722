/**
 * @module The documents as Markdown, and `/llms.txt` (llmstxt.org), their index for programs that read. Used at build
 * time, and once in a run from sources.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { BuiltFile } from '#platform/http/built-files.ts'

const DOCS = join(import.meta.dir, '../../../docs')

/** Sections of docs/README.md -> those of llms.txt. A reader of the API needs no other pages. */
const SECTIONS: readonly (readonly [section: string, title: string])[] = [
  ['Use it', 'Documents'],
  ['Move here', 'Moving here'],
  ['Run it', 'Optional'],
]

interface Entry {
  readonly title: string
  /** Below /docs. */
  readonly page: string
  readonly summary: string
}

/** A link or picture in Markdown, to a file. */
const LINK = /!?\[([^\]]*)\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)/g

const readPage = (page: string): string => readFileSync(join(DOCS, page), 'utf8')

const listEntries = (index: string, section: string): Entry[] => {
  const text = index.split(/^## /m).find((part) => part.startsWith(section)) ?? ''
  return [...text.matchAll(/^\| \[(.+?)\]\((.+?)\) \| (.+) \|$/gm)].map(([, title = '', page = '', summary = '']) => ({
    title,
    page,
    summary: summary.replaceAll(LINK, '$1'),
  }))
}

/** Keeps the text of links to files that are not served. */
const withServedLinks = (text: string, page: string, pages: ReadonlySet<string>): string =>
  text.replaceAll(LINK, (link: string, label: string, target: string) =>
    pages.has(join(page, '..', target)) ? link : label,
  )

/** @param description of the service, for llms.txt */
export function readDocuments(description: string): BuiltFile[] {
  const index = readPage('README.md')
  const sections = SECTIONS.map(([section, title]) => ({ title, entries: listEntries(index, section) }))
  const integrations = readdirSync(join(DOCS, 'integrations')).map((name) => `integrations/${name}`)
  const pages = new Set([...sections.flatMap(({ entries }) => entries.map(({ page }) => page)), ...integrations])
  const lists = sections.map(({ title, entries }) => {
    const rows = entries.map((entry) => `- [${entry.title}](/docs/${entry.page}): ${entry.summary}\n`)
    return `## ${title}\n\n${rows.join('')}`
  })
  const llms = `# Tassis

> ${description}

Requests carry \`Authorization: Bearer KEY\`. A try that reaches nobody: a key of an account whose domain is not verified
captures its mail, and the simulator has addresses that bounce or complain on purpose.

## API

- [OpenAPI description](/openapi.json): every route with its fields, errors and scopes
- [Operations](/docs): the same for people, a page for each

${lists.join('\n')}`
  return [
    { name: 'llms.txt', content: llms },
    ...[...pages].map((page) => ({ name: `docs/${page}`, content: withServedLinks(readPage(page), page, pages) })),
  ]
}
