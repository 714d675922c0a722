import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { type EmailFilters, parseFilters } from '../screens/emails/filters.ts'
import { EMAIL_TABS, type EmailTab } from '../screens/emails/tabs.ts'
import { root } from './root.tsx'

/** The list of emails: its filters, and the cursor of a page after the first. */
interface EmailsSearch extends EmailFilters {
  readonly cursor?: string
}

const MAX_CURSOR_LENGTH = 500

const emails = createRoute({
  getParentRoute: () => root,
  path: '/emails',
  validateSearch: (search: Record<string, unknown>): EmailsSearch => {
    const { cursor } = search
    return {
      ...parseFilters(search),
      ...(typeof cursor === 'string' && cursor !== '' && { cursor: cursor.slice(0, MAX_CURSOR_LENGTH) }),
    }
  },
  component: lazyRouteComponent(() => import('../screens/emails.tsx'), 'EmailsScreen'),
})

const email = createRoute({
  getParentRoute: () => root,
  path: '/emails/$id',
  validateSearch: (search: Record<string, unknown>): { readonly tab?: EmailTab } => {
    const tab = EMAIL_TABS.find((name) => name === search['tab'])
    return tab ? { tab } : {}
  },
  component: lazyRouteComponent(() => import('../screens/email.tsx'), 'EmailScreen'),
})

export const emailRoutes = [emails, email] as const
