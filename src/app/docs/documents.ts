/**
 * @module The files of /docs: what is made of the routes and of api-info.json, the documents as Markdown, and `/llms.txt`
 * (llmstxt.org), their index for programs that read. Used at build time, and once in a run from sources.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { AnyElysia } from 'elysia'
import { describeWebhookRequests } from '#features/webhooks/webhooks/payload/payload-schemas.ts'
import type { BuiltFile } from '#platform/http/built-files.ts'
import { createDocs } from '#platform/http/docs-page.ts'
import info from './api-info.json' with { type: 'json' }

const DOCS = join(import.meta.dir, '../../../docs')

/** A link or picture in Markdown, to a file. */
const LINK = /!?\[([^\]]*)\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)/g

const readPage = (page: string): string => readFileSync(join(DOCS, page), 'utf8')

function readDocuments(): BuiltFile[] {
  // A reader of the API needs no other sections.
  const sections = readPage('README.md').split(/^(?=## )/m)
  const index = sections.filter((section) => /^## (?:Use it|Move here|Run it)\n/.test(section)).join('')
  const integrations = readdirSync(join(DOCS, 'integrations')).map((name) => `integrations/${name}`)
  const pages = new Set([...[...index.matchAll(LINK)].map(([, , page = '']) => page), ...integrations])
  const llms = `# Tassis

> ${info.description}

Requests carry \`Authorization: Bearer KEY\`. A try that reaches nobody: a key of an account whose domain is not verified
captures its mail, and the simulator has addresses that bounce or complain on purpose.

## API

- [OpenAPI description](/openapi.json): every route with its fields, errors and scopes
- [Operations](/docs): the same for people, a page for each

${index.replaceAll('](', '](/docs/').replace('## Run it', '## Optional')}`
  /** Keeps the text of links to files that are not served. */
  const readServed = (page: string): string =>
    readPage(page).replaceAll(LINK, (link: string, label: string, target: string) =>
      pages.has(join(page, '..', target)) ? link : label,
    )
  return [
    { name: 'llms.txt', content: llms },
    ...[...pages].map((page) => ({ name: `docs/${page}`, content: readServed(page) })),
  ]
}

/** @param routes of the service */
export const describeRoutes = async (routes: readonly AnyElysia[]): Promise<BuiltFile[]> => [
  ...(await createDocs(routes, { ...info, webhooks: describeWebhookRequests() })),
  ...readDocuments(),
]
