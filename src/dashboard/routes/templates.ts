import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { parsePage } from '../parts/pages.tsx'
import { EDITOR_TABS, type EditorTab } from '../screens/templates/tabs.ts'
import { root } from './root.tsx'

const MAX_TEXT_LENGTH = 200

/** A text in the query of a URL, shortened; numbers are texts, too. */
const readText = (value: unknown): string =>
  typeof value === 'string' || typeof value === 'number' ? String(value).trim().slice(0, MAX_TEXT_LENGTH) : ''

/** The list: page and search. */
interface TemplatesSearch {
  readonly page?: number
  readonly search?: string
}

const templates = createRoute({
  getParentRoute: () => root,
  path: '/templates',
  validateSearch: (search: Record<string, unknown>): TemplatesSearch => {
    const text = readText(search['search'])
    return { ...parsePage(search), ...(text !== '' && { search: text }) }
  },
  component: lazyRouteComponent(() => import('../screens/templates.tsx'), 'TemplatesScreen'),
})

/** What a new template begins with: `example`, or the id of another template. */
interface NewTemplateSearch {
  readonly from?: string
}

const templateNew = createRoute({
  getParentRoute: () => root,
  path: '/templates/new',
  validateSearch: (search: Record<string, unknown>): NewTemplateSearch => {
    const from = readText(search['from'])
    return from === '' ? {} : { from }
  },
  component: lazyRouteComponent(() => import('../screens/template-new.tsx'), 'TemplateNewScreen'),
})

const template = createRoute({
  getParentRoute: () => root,
  path: '/templates/$id',
  validateSearch: (search: Record<string, unknown>): { readonly tab?: EditorTab } => {
    const tab = EDITOR_TABS.find((name) => name === search['tab'])
    return tab ? { tab } : {}
  },
  component: lazyRouteComponent(() => import('../screens/template.tsx'), 'TemplateScreen'),
})

const templateVersions = createRoute({
  getParentRoute: () => root,
  path: '/templates/$id/versions',
  validateSearch: (search: Record<string, unknown>): { readonly version?: number } => {
    const version = Number(search['version'])
    return Number.isSafeInteger(version) && version > 0 ? { version } : {}
  },
  component: lazyRouteComponent(() => import('../screens/template-versions.tsx'), 'TemplateVersionsScreen'),
})

export const templateRoutes = [templates, templateNew, template, templateVersions] as const
