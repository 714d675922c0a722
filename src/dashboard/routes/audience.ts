import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { parseCursor } from '../parts/cursor-pages.tsx'
import { parsePage } from '../parts/pages.tsx'
import { parseContactSearch } from '../screens/audience/contact-search.ts'
import { root } from './root.tsx'

const audience = createRoute({
  getParentRoute: () => root,
  path: '/audience',
  validateSearch: parsePage,
  component: lazyRouteComponent(() => import('../screens/audience.tsx'), 'AudienceScreen'),
})

const list = createRoute({
  getParentRoute: () => root,
  path: '/audience/lists/$id',
  validateSearch: (search: Record<string, unknown>) => ({ ...parseContactSearch(search), ...parseCursor(search) }),
  component: lazyRouteComponent(() => import('../screens/audience-list.tsx'), 'AudienceListScreen'),
})

const contact = createRoute({
  getParentRoute: () => root,
  path: '/audience/lists/$id/contacts/$email',
  component: lazyRouteComponent(() => import('../screens/audience-contact.tsx'), 'AudienceContactScreen'),
})

const MAX_ID_LENGTH = 100

const contactImport = createRoute({
  getParentRoute: () => root,
  path: '/audience/lists/$id/import',
  validateSearch: ({ operation }: Record<string, unknown>): { readonly operation?: string } =>
    typeof operation === 'string' && operation !== '' ? { operation: operation.slice(0, MAX_ID_LENGTH) } : {},
  component: lazyRouteComponent(() => import('../screens/audience-import.tsx'), 'AudienceImportScreen'),
})

const forms = createRoute({
  getParentRoute: () => root,
  path: '/audience/forms',
  validateSearch: parsePage,
  component: lazyRouteComponent(() => import('../screens/audience-forms.tsx'), 'AudienceFormsScreen'),
})

const form = createRoute({
  getParentRoute: () => root,
  path: '/audience/forms/$id',
  component: lazyRouteComponent(() => import('../screens/audience-form.tsx'), 'AudienceFormScreen'),
})

export const audienceRoutes = [audience, list, contact, contactImport, forms, form] as const
