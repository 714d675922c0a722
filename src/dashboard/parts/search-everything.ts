/** @module What the palette finds in the account. One hook, which asks for what was typed. */
import { useDebouncedValue } from '@mantine/hooks'
import { keepPreviousData } from '@tanstack/react-query'
import { linkOptions } from '@tanstack/react-router'
import type { Search as Everything } from '#client/api.ts'
import { read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import type { Target } from './filters.ts'
import { formatDay, formatTime, toShownState } from './format.ts'
import {
  IconInbox,
  IconMail,
  IconSearch,
  IconSpeakerphone,
  IconTemplate,
  IconUser,
  IconUsers,
  IconWebhook,
  IconWorld,
} from './icons.ts'
import { toStatusWord } from './tone.ts'

export interface FoundItem {
  readonly key: string
  readonly label: string
  /** At its end, such as a state or a time. */
  readonly note?: string
  readonly icon?: typeof IconMail
  readonly target: Target
}

export interface Found {
  readonly label: string
  readonly items: readonly FoundItem[]
}

interface Search {
  readonly groups: readonly Found[]
  /** Such as "Searching…", or what is closest when nothing was found. */
  readonly note?: string
}

/** Until somebody has stopped typing. */
const PAUSE_MS = 150
const MIN_LENGTH = 2

/** @param text as it was typed, without spaces around it; may be empty */
export function useSearch(text: string): Search {
  const [q] = useDebouncedValue(text, PAUSE_MS)
  const isAsked = q.length >= MIN_LENGTH && text.length >= MIN_LENGTH
  const { data, error, isPlaceholderData } = useData(read.search.search({ q }), {
    enabled: isAsked,
    placeholderData: keepPreviousData,
    staleTime: 10_000,
    retry: false,
  })
  if (text.length < MIN_LENGTH) return { groups: [] }
  const all: FoundItem = {
    key: 'all',
    label: `All emails with “${text}”`,
    icon: IconSearch,
    target: linkOptions({ to: '/emails', search: { q: text } }),
  }
  const none: Found = { label: 'Emails', items: [all] }
  const isCurrent = q === text && !isPlaceholderData
  if (error && isCurrent) return { groups: [none], note: error.message }
  if (!data) return { groups: [none], note: 'Searching…' }
  const groups = toGroups(data, all)
  if (!isCurrent) return { groups, note: 'Searching…' }
  if (groups.some(({ items }) => items.some(({ key }) => key !== all.key))) return { groups }
  const since = data.since === null ? '' : ` since ${formatDay(new Date(data.since))}`
  return {
    groups: [
      ...(data.closest.length > 0
        ? [{ label: 'Closest', items: data.closest.map((address) => toPerson(address)) }]
        : []),
      none,
    ],
    note: `No mail to ${text}${since}.`,
  }
}

const toPerson = (address: string, note?: string): FoundItem => ({
  key: `person ${address}`,
  label: address,
  ...(note !== undefined && { note }),
  icon: IconUser,
  target: linkOptions({ to: '/people/$address', params: { address } }),
})

function toGroups(found: Everything, all: FoundItem): readonly Found[] {
  const named = (
    label: string,
    items: readonly { readonly id: string; readonly name: string; readonly detail: string | null }[],
    icon: typeof IconMail,
    toTarget: (id: string) => Target,
  ): Found => ({
    label,
    items: items.map(({ id, name, detail }) => ({
      key: id,
      label: name,
      ...(detail !== null && { note: detail }),
      icon,
      target: toTarget(id),
    })),
  })
  return [
    { label: 'People', items: found.people.map(({ address, name }) => toPerson(address, name ?? undefined)) },
    {
      label: 'Emails',
      items: [
        ...found.emails.map(({ id, subject, to_address: to, state, engagement, created_at: at }) => ({
          key: id,
          label: `${subject || '(no subject)'} · ${to}`,
          note: `${toStatusWord(toShownState({ engagement }, state))} · ${formatTime(at)}`,
          icon: IconMail,
          target: linkOptions({ to: '/emails/$id', params: { id } }),
        })),
        all,
      ],
    },
    named('Domains', found.domains, IconWorld, (id) => linkOptions({ to: '/domains/$id', params: { id } })),
    named('Templates', found.templates, IconTemplate, (id) => linkOptions({ to: '/templates/$id', params: { id } })),
    named('Webhooks', found.webhooks, IconWebhook, (id) => linkOptions({ to: '/webhooks/$id', params: { id } })),
    named('Lists', found.lists, IconUsers, (id) => linkOptions({ to: '/audience/lists/$id', params: { id } })),
    named('Mailboxes', found.mailboxes, IconInbox, (id) =>
      linkOptions({ to: '/inbound/mailboxes/$id', params: { id } }),
    ),
    named('Broadcasts', found.newsletters, IconSpeakerphone, (id) =>
      linkOptions({ to: '/broadcasts/drafts/$id', params: { id } }),
    ),
  ].filter(({ items }) => items.length > 0)
}
