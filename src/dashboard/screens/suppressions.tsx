import { Page } from '../parts/page.tsx'

export const SuppressionsScreen = () => <Page title="Suppressions">Not built</Page>
