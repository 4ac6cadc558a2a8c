// Checks that the types of the page's scripts are those of the API. The compiler reads this file;
// nothing runs it.
//
// A script may know less than the API says: fields that it does not read, and open sets of texts.

import type * as page from './api.js';
import type { components } from './openapi.js';

type Api = components['schemas'];

/** Is an error unless each answer of the API is one that the page expects. */
type Accepts<Page, Answer extends Page> = [Page, Answer];
