"""Does the evidence carry the answer?"""
