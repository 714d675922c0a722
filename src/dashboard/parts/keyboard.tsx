/** @module Keyboard shortcuts of all screens, the list of them, and the palette that goes anywhere. */
import { Kbd, Modal, NavLink, Stack, Table, Text, TextInput } from '@mantine/core'
import { useDisclosure, useWindowEvent } from '@mantine/hooks'
import { useNavigate } from '@tanstack/react-router'
import { useRef, useState } from 'react'
import { useSession } from '../api/session.tsx'
import { bindText } from './form.tsx'
import { listNavigation, type NavigationItem } from './navigation.ts'

/** Marks the element that `/` moves to. */
export const SEARCH_MARK = { 'data-search': '' }
/** Marks the rows that `j` and `k` move between; each has a link. */
export const ROW_MARK = { 'data-row': '' }

/** The URL of the row that was opened last. */
let lastOpened: string | undefined

/** As the ref of a list: back in it, the row that was opened has the focus, so that `j` and `k` continue there. */
export function focusLastOpened(list: HTMLElement | null): void {
  const links = list?.querySelectorAll<HTMLAnchorElement>('[data-row] a') ?? []
  const opened = [...links].find(({ href }) => href === lastOpened)
  if (!opened) return
  lastOpened = undefined
  opened.focus()
}

const listShortcuts = (navigation: readonly NavigationItem[]): readonly (readonly [keys: string, effect: string])[] => [
  ['/', 'Search on this screen'],
  ['Ctrl K', 'Go anywhere'],
  ...navigation.map(({ key, label }) => [`g ${key}`, `Go to ${label}`] as const),
  ['j', 'Next row'],
  ['k', 'Previous row'],
  ['Enter', 'Open the row'],
  ['Delete', 'Delete the captured email (in the sandbox)'],
  ['Esc', 'Close'],
  ['?', 'This list'],
]

/** After `g`, the next key must follow within this time. */
const SEQUENCE_MS = 1500

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable ||
    /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) ||
    target.closest('[role=dialog]') !== null)

export function Keyboard() {
  const navigate = useNavigate()
  const navigation = listNavigation(useSession().user.is_operator)
  const [isHelpOpen, help] = useDisclosure(false)
  const [isPaletteOpen, palette] = useDisclosure(false)
  const goPressedAt = useRef(Number.NEGATIVE_INFINITY)
  useWindowEvent('click', ({ target }) => {
    const opened = target instanceof Element && target.closest<HTMLAnchorElement>('[data-row] a')
    if (opened) lastOpened = opened.href
  })
  useWindowEvent('keydown', (event) => {
    if (event.key.toLowerCase() === 'k' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault()
      palette.open()
      return
    }
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return
    if (event.timeStamp - goPressedAt.current < SEQUENCE_MS) {
      goPressedAt.current = Number.NEGATIVE_INFINITY
      const item = navigation.find(({ key }) => key === event.key)
      if (item) void navigate({ to: item.to })
      return
    }
    if (event.key === 'g') goPressedAt.current = event.timeStamp
    else if (event.key === '?') help.open()
    else if (event.key === 'j' || event.key === 'k') moveBetweenRows(event.key === 'j' ? 1 : -1)
    else if (event.key === '/') {
      const search = document.querySelector<HTMLInputElement>('[data-search]')
      if (!search) return
      event.preventDefault()
      search.focus()
      search.select()
    }
  })
  return (
    <>
      <Modal opened={isHelpOpen} onClose={help.close} title="Keyboard shortcuts">
        <Table>
          <Table.Tbody>
            {listShortcuts(navigation).map(([keys, effect]) => (
              <Table.Tr key={keys}>
                <Table.Td>
                  <Kbd>{keys}</Kbd>
                </Table.Td>
                <Table.Td>{effect}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Modal>
      <Palette navigation={navigation} isOpen={isPaletteOpen} onClose={palette.close} />
    </>
  )
}

function moveBetweenRows(step: 1 | -1): void {
  const links = [...document.querySelectorAll<HTMLElement>('[data-row] a')].filter(
    (link, index, all) =>
      all.findIndex((other) => other.closest('[data-row]') === link.closest('[data-row]')) === index,
  )
  const current = links.findIndex((link) => link.closest('[data-row]')?.contains(document.activeElement))
  const next = links[current < 0 ? (step === 1 ? 0 : links.length - 1) : current + step]
  next?.focus()
}

interface PaletteProps {
  readonly navigation: readonly NavigationItem[]
  readonly isOpen: boolean
  onClose(): void
}

/** Goes to a screen by its name, or searches emails for an address. */
function Palette({ navigation, isOpen, onClose }: PaletteProps) {
  const navigate = useNavigate()
  const [text, setText] = useState('')
  const wanted = text.trim().toLowerCase()
  const screens = navigation.filter(({ label }) => label.toLowerCase().includes(wanted))
  const go = (to: string) => {
    setText('')
    onClose()
    void navigate({ to })
  }
  const findEmails = () => {
    setText('')
    onClose()
    void navigate({ to: '/emails', search: { to: text.trim() } })
  }
  return (
    <Modal opened={isOpen} onClose={onClose} title="Go to" size="md">
      <form
        onSubmit={(event) => {
          event.preventDefault()
          if (wanted.includes('@')) findEmails()
          else if (screens[0]) go(screens[0].to)
        }}
      >
        <Stack gap="xs">
          <TextInput
            aria-label="Screen or recipient address"
            placeholder="Screen, or a recipient address"
            {...bindText(text, setText)}
            data-autofocus
          />
          {screens.map(({ label, to }) => (
            <NavLink key={to} component="button" type="button" label={label} onClick={() => go(to)} />
          ))}
          {screens.length === 0 && !wanted.includes('@') && <Text size="sm">No screen has this name.</Text>}
          {wanted.includes('@') && (
            <NavLink component="button" type="button" label={`Emails to ${text.trim()}`} onClick={findEmails} />
          )}
        </Stack>
      </form>
    </Modal>
  )
}
